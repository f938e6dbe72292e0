#include "planner/schedules/phased.h"

#include <gtest/gtest.h>

#include "graph/base/random.h"
#include "planner/schedules/fixed_schedules.h"
#include "planner/schedules/simulate_schedule.h"

namespace xrun::planner {
namespace {

ScheduleRequest even(int ranks, int chunks, int micro_batches, bool splits) {
  const auto stages = static_cast<size_t>(ranks * chunks);
  const Seconds part = 1.0 / chunks;
  ScheduleRequest request{.forward = std::vector<Seconds>(stages, part),
                          .backward = std::vector<Seconds>(stages, 2 * part),
                          .rank_of_stage = looped_ranks(ranks * chunks, ranks),
                          .micro_batches = micro_batches,
                          .head_passes = 1,
                          .head = 5};
  if (splits) {
    request.input_gradient.assign(stages, part);
    request.weight_gradient.assign(stages, part);
  }
  return request;
}

Seconds makespan(const ScheduleRequest& request) { return simulate(schedule_phased(request), request).makespan; }

// Two ranks and four micro-batches with a head of 5 compute for 17.
TEST(Phased, WaitsAreThoseOfTheFirstAndTheLastMicroBatch) {
  EXPECT_NEAR(makespan(even(2, 1, 4, false)), 20, 1e-9) << "GPipe waits for a forward and a backward pass";
  EXPECT_NEAR(makespan(even(2, 1, 4, true)), 19, 1e-9) << "gradients of weights fill the end";
  EXPECT_NEAR(makespan(even(2, 2, 4, true)), 18, 1e-9) << "stages of half the length";
  EXPECT_NEAR(makespan(even(2, 4, 4, true)), 17.5, 1e-9);
  const ScheduleRequest plain = even(2, 1, 4, false);
  EXPECT_NEAR(simulate(schedule_gpipe(plain), plain).makespan, 20, 1e-9);
}

TEST(Phased, EveryRequestHasASoundSchedule) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomStream stream(seed, 83);
    uint64_t at = 0;
    const auto below = [&](uint64_t n) { return static_cast<int>(stream.below(at++, n)); };
    const int ranks = 1 + below(4), chunks = 1 + below(3);
    ScheduleRequest request = even(ranks, chunks, 1 + below(7), below(2) == 0);
    if (chunks == 2 && below(2) == 0) {
      request.rank_of_stage = folded_ranks(ranks);
    }
    for (auto* times : {&request.forward, &request.backward, &request.input_gradient, &request.weight_gradient}) {
      for (Seconds& time : *times) {
        time *= 0.2 + static_cast<double>(stream.uniform(at++));
      }
    }
    request.hop = below(2) * 0.3;
    request.head_passes = below(2);
    const Schedule schedule = schedule_phased(request);
    const Status sound = check_schedule(schedule);
    ASSERT_TRUE(sound.ok()) << "seed " << seed << ": " << sound.error().message << "\n" << to_text(schedule);
  }
}

}  // namespace
}  // namespace xrun::planner
