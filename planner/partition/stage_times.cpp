#include "planner/partition/stage_times.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

StageTimes::StageTimes(const PartitionRequest& request) : request_(request), size_(request.layers.size() + 1) {
  for (int s = 0; s < request.stages; ++s) {
    const int held = micro_batches_held(request.pipeline, s, request.stages, request.micro_batches);
    // Without a limit of memory, the number of held micro-batches makes no difference.
    std::vector<Seconds>& times = by_held_[request.cap == 0 ? 0 : held];
    if (times.empty()) {
      fill(held, times);
    }
    by_stage_.push_back(&times);
  }
}

std::vector<Seconds> StageTimes::distinct_times() const {
  std::vector<Seconds> times;
  for (const auto& [held, table] : by_held_) {
    std::copy_if(table.begin(), table.end(), std::back_inserter(times), [](Seconds t) { return t < kInfinity; });
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

void StageTimes::fill(int held, std::vector<Seconds>& times) {
  times.assign(size_ * size_, kInfinity);
  const int n = static_cast<int>(request_.layers.size());
  // A single stage has all layers.
  const bool whole = request_.stages == 1;
  for (int begin = 0; begin < (whole ? 1 : n); ++begin) {
    StageSums sums(request_, held, begin);
    for (int end = begin + 1; end <= n; ++end) {
      sums.add_layer();
      if (whole && end < n) {
        continue;
      }
      PartitionStage stage{.begin = begin, .end = end, .forward = sums.forward(), .backward = sums.backward()};
      stage.memory = sums.memory();
      if (!sums.fits()) {
        const Recomputation chosen =
            request_.recompute == Recompute::kAuto ? choose_recompute(request_, held, stage) : Recomputation{};
        proven_ = proven_ && chosen.proven;
        if (!chosen.fits) {
          break;  // more layers do not fit either
        }
      }
      times[static_cast<size_t>(begin) * size_ + static_cast<size_t>(end)] = stage.time();
    }
  }
}

}  // namespace xrun::planner
