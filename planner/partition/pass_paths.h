// Times of the passes of one micro-batch that must run before or after those of a stage, whatever the other cuts are
// (docs/internals/algorithms.md, "The bound of a step").
#pragma once

#include <utility>
#include <vector>

#include "graph/base/units.h"

namespace xrun::planner {

// The positions before which a chain of layers may be cut, ascending.
using CutPositions = std::vector<int>;

// The passes over a chain in one direction. In the backward direction a pair also has the earlier layer first, although
// it waits for the later one.
struct ChainPasses {
  std::vector<Seconds> times;              // index: layer
  std::vector<std::pair<int, int>> pairs;  // layers of which one reads what the other one makes, first < second
};

// A stage is a contiguous range of layers. It runs the pass of a micro-batch as a whole, once the stages have ended
// whose values it reads.
class PassPaths {
 public:
  // Takes O(n²) time for n layers. `cuts`: the legal positions, from 1 to n - 1. The arguments are copied.
  PassPaths(const ChainPasses& passes, const CutPositions& cuts);

  // Returns the seconds of the layers begin .. end - 1.
  Seconds sum(int begin, int end) const { return sums_[static_cast<size_t>(end)] - sums_[static_cast<size_t>(begin)]; }
  // Returns the least time of the passes of earlier stages that must run one after the other because of this stage: in
  // the forward direction before its pass, in the backward direction after it. O(log n).
  Seconds earlier(int begin, int end) const;
  // Returns the least time of the passes of later stages, up to and with the last one, that must run one after the
  // other: in the forward direction after the pass of this stage, in the backward direction before it. Negative if some
  // cuts leave no such path to the last stage. O(log n).
  Seconds later(int begin, int end) const;

 private:
  // A value of a function that grows in steps: it holds from `position` on.
  struct Step {
    int position = 0;
    Seconds value = 0;
  };
  using Steps = std::vector<std::vector<Step>>;

  void find_earlier(const std::vector<std::vector<int>>& before, const CutPositions& cuts);
  void find_later(const std::vector<std::vector<int>>& after, const CutPositions& cuts);

  int layers_;
  std::vector<Seconds> sums_{0};  // times of the layers before a position
  Steps earlier_;                 // index: begin; the steps of `end`, ascending
  Steps later_;                   // index: end; the steps of `begin`, descending
};

}  // namespace xrun::planner
