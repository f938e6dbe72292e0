// Curve: the learning rate over a run.
#pragma once

#include <cstdint>
#include <vector>

namespace xrun {

// The learning rate over a run: consecutive pieces. Steps are counted from 0; if the batch grows, they are steps of its
// first size (graph/settings/step_sizes.h).
struct CurvePiece {
  enum Kind { kConstant, kWarmup, kCosine, kPoly, kSteps };
  Kind kind = kConstant;
  double from = 0;
  double to = 0;
  double steps = 0;        // length in steps; may be fractional, as epochs may be
  double power = 1;        // kPoly: the exponent
  std::vector<double> at;  // kSteps: in steps from the start of the piece
  double by = 0.1;         // kSteps: factor at each of `at`
};

struct Curve {
  std::vector<CurvePiece> pieces;
  // The rate of step `step`; after the last piece, its final value.
  double at(int64_t step) const;
};

}  // namespace xrun
