// Curve: the learning rate over a run.
#pragma once

#include <cstdint>
#include <vector>

namespace xrun {

// The rate over a run: pieces that follow one another. Steps are counted from 0; where the batch grows, they are those
// of its first size (graph/step_sizes.h).
struct CurvePiece {
  enum Kind { kConstant, kWarmup, kCosine, kPoly, kSteps };
  Kind kind = kConstant;
  double from = 0;
  double to = 0;
  double steps = 0;        // span in steps; may be fractional where epochs are
  double power = 1;        // kPoly
  std::vector<double> at;  // kSteps: in steps from the begin of the piece
  double by = 0.1;         // kSteps
};

struct Curve {
  std::vector<CurvePiece> pieces;
  // The rate of step `step`; after the last piece its final value holds.
  double at(int64_t step) const;
};

}  // namespace xrun
