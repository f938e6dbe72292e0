// Requests of schedules for tests.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/base/random.h"
#include "planner/schedules/fixed_schedules.h"

namespace xrun::planner::testing {

// Stages with equal times on the given ranks, so that a pass of all stages of a rank takes 1 for F, I and W each, and
// 2 for B. REQUIRES: all ranks have the same number of stages.
inline ScheduleRequest equal_stages(std::vector<int> rank_of_stage, int micro_batches, Seconds hop) {
  const size_t stages = rank_of_stage.size();
  const double chunks = static_cast<double>(std::count(rank_of_stage.begin(), rank_of_stage.end(), 0));
  const std::vector<Seconds> one(stages, 1 / chunks);
  return {.forward = one,
          .backward = std::vector<Seconds>(stages, 2 / chunks),
          .input_gradient = one,
          .weight_gradient = one,
          .rank_of_stage = std::move(rank_of_stage),
          .hop = hop,
          .micro_batches = micro_batches};
}

// Draws numbers in order.
class Draws {
 public:
  explicit Draws(uint64_t seed, uint64_t stream = 7) : stream_(seed, stream) {}
  int below(int n) { return static_cast<int>(stream_.below(next_++, static_cast<uint64_t>(n))); }
  int between(int least, int most) { return least + below(most - least + 1); }
  double uniform(float low, float high) { return static_cast<double>(stream_.uniform(next_++, low, high)); }
  bool coin() { return below(2) == 0; }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

enum class Placement { kOneStage, kLooped, kFolded, kRandom };

inline std::vector<int> draw_ranks(Draws& draws, Placement placement, int ranks) {
  if (placement == Placement::kFolded) {
    return folded_ranks(ranks);
  }
  std::vector<int> placed =
      looped_ranks(placement == Placement::kOneStage ? ranks : ranks * draws.between(2, 4), ranks);
  for (size_t s = placed.size(); s > 1 && placement == Placement::kRandom; --s) {
    std::swap(placed[s - 1], placed[static_cast<size_t>(draws.below(static_cast<int>(s)))]);
  }
  return placed;
}

// Random stages on random ranks, without a limit of memory. Some stages take no time, so that their instants coincide.
inline ScheduleRequest random_request(uint64_t seed) {
  Draws draws(seed);
  const int ranks = draws.between(1, 6);
  const auto placement = static_cast<Placement>(draws.below(4));
  ScheduleRequest request{.rank_of_stage = draw_ranks(draws, placement, ranks)};
  request.micro_batches = draws.between(1, 12);
  request.hop = draws.uniform(0, 1);
  const bool has_first = draws.coin();
  const bool has_hops = draws.coin();
  for (size_t s = 0; s < request.rank_of_stage.size(); ++s) {
    const bool idle = draws.below(8) == 0;
    const auto time = [&](float most) { return idle ? 0.0 : draws.uniform(0.1F, most); };
    request.forward.push_back(time(2));
    request.input_gradient.push_back(time(2));
    request.weight_gradient.push_back(time(2));
    request.backward.push_back((request.input_gradient.back() + request.weight_gradient.back()) *
                               draws.uniform(0.8F, 1));
    request.saved.push_back(draws.uniform(0.5F, 2));
    request.retained.push_back(request.saved.back() * draws.uniform(0, 1));
    if (has_hops) {
      request.hops.push_back(draws.uniform(0, 1));
    }
    if (has_first) {
      request.first.push_back(draws.uniform(0, 1));
    }
  }
  for (int r = 0; r < ranks; ++r) {
    request.extra_warm_up.push_back(r == 0 ? draws.below(4) : draws.below(request.extra_warm_up.back() + 2));
    request.shards.push_back(draws.coin());
  }
  request.head_passes = draws.coin() ? request.micro_batches : 0;
  request.head = draws.uniform(0, 3);
  return request;
}

}  // namespace xrun::planner::testing
