#include "planner/schedules/fixed_schedules.h"

#include <algorithm>
#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/schedules/saved_peaks.h"
#include "planner/schedules/simulate_schedule.h"
#include "tests/planner/schedules/requests.h"

namespace xrun::planner {
namespace {

using testing::equal_stages;
using ::testing::HasSubstr;

struct Column {
  const char* name;
  Schedule (*make)(const ScheduleRequest& request);
  int chunks;
  bool folded;
};

constexpr std::array kColumns{Column{"gpipe", schedule_gpipe, 1, false},
                              Column{"one_f_one_b", schedule_one_f_one_b, 1, false},
                              Column{"interleaved, 2 chunks", schedule_interleaved, 2, false},
                              Column{"interleaved, 4 chunks", schedule_interleaved, 4, false},
                              Column{"zb1p, 2 chunks", schedule_zb1p, 2, false},
                              Column{"zb_h1", schedule_zb_h1, 1, false},
                              Column{"zb_v", schedule_zb_v, 2, true}};

ScheduleRequest request_of(const Column& column, int ranks, int micro_batches, Seconds hop) {
  return equal_stages(column.folded ? folded_ranks(ranks) : looped_ranks(column.chunks * ranks, ranks), micro_batches,
                      hop);
}

struct Golden {
  int ranks;
  int micro_batches;
  Seconds hop;
  std::array<Seconds, kColumns.size()> makespans;
};

// A pass of all stages of a rank takes F = I = W = 1.
TEST(FixedSchedules, MakespansEqualTheGoldenValues) {
  for (const Golden& golden : {Golden{2, 8, 0, {27, 27, 25.5, 24.75, 24.5, 25, 24.5}},
                               Golden{2, 8, 0.1, {27.2, 27.8, 26.1, 26.15, 25.1, 25.4, 24.8}},
                               Golden{4, 8, 0, {33, 33, 28.5, 26.25, 25.5, 27, 25.5}},
                               Golden{4, 8, 0.1, {33.6, 34.6, 29.9, 29.25, 27.1, 28.2, 26.8}},
                               Golden{4, 16, 0, {57, 57, 52.5, 50.25, 49.5, 51, 49.5}},
                               Golden{4, 16, 0.1, {57.6, 59.8, 53.9, 53.25, 51.1, 52.2, 50.8}},
                               Golden{8, 16, 0, {69, 69, 58.5, 53.25, 51.5, 55, 51.5}},
                               Golden{8, 16, 0.1, {70.4, 73.0, 61.5, 59.45, 55.1, 57.8, 54.8}},
                               Golden{8, 32, 0, {117, 117, 106.5, 101.25, 99.5, 103, 99.5}},
                               Golden{8, 32, 0.1, {118.4, 123.8, 109.5, 107.45, 103.1, 105.8, 102.8}}}) {
    for (size_t i = 0; i < kColumns.size(); ++i) {
      const ScheduleRequest request = request_of(kColumns[i], golden.ranks, golden.micro_batches, golden.hop);
      const Schedule schedule = kColumns[i].make(request);
      ASSERT_TRUE(check_schedule(schedule).ok()) << kColumns[i].name;
      EXPECT_NEAR(simulate(schedule, request).makespan, golden.makespans[i], 1e-9)
          << kColumns[i].name << ", " << golden.ranks << " ranks, " << golden.micro_batches << " micro-batches, hop "
          << golden.hop;
    }
  }
}

TEST(FixedSchedules, PeaksEqualTheGoldenValues) {
  for (const int ranks : {2, 4, 8}) {
    for (const int micro_batches : {2 * ranks, 4 * ranks}) {
      const double p = ranks;
      const std::array<double, kColumns.size()> peaks{
          static_cast<double>(micro_batches), p, p + (p - 1) / 2, p + (p - 1) / 4, p, p, p};
      for (size_t i = 0; i < kColumns.size(); ++i) {
        const ScheduleRequest request = request_of(kColumns[i], ranks, micro_batches, 0);
        EXPECT_EQ(std::ranges::max(saved_peaks(kColumns[i].make(request), request)), peaks[i])
            << kColumns[i].name << ", " << ranks << " ranks, " << micro_batches << " micro-batches";
      }
    }
  }
}

struct WarmUps {
  int ranks;
  int micro_batches;
  std::array<double, 4> peaks;                      // standard, one more, eager, GPipe
  std::array<std::array<Seconds, 4>, 3> makespans;  // for hops of 0.1, 0.5 and 1
};

// F = 1 and B = 2. One more forward pass is on all ranks but the last; eager has 2 (p - 1 - r) on rank r.
TEST(FixedSchedules, LongerWarmUpsOfOneFOneBHaveTheGoldenValues) {
  for (const WarmUps& golden :
       {WarmUps{4, 16, {4, 5, 7, 16}, {{{59.8, 57.6, 57.6, 57.6}, {71, 66, 60, 60}, {85, 78, 63, 63}}}},
        WarmUps{8, 32, {8, 9, 15, 32}, {{{123.8, 121.2, 118.4, 118.4}, {151, 146, 124, 124}, {185, 178, 131, 131}}}}}) {
    for (size_t c = 0; c < 3; ++c) {
      ScheduleRequest request =
          equal_stages(looped_ranks(golden.ranks, golden.ranks), golden.micro_batches, std::array{0.1, 0.5, 1.0}[c]);
      const auto expect = [&](const Schedule& schedule, size_t column) {
        ASSERT_TRUE(check_schedule(schedule).ok()) << to_text(schedule);
        EXPECT_NEAR(simulate(schedule, request).makespan, golden.makespans[c][column], 1e-9) << "column " << column;
        EXPECT_EQ(saved_peaks(schedule, request)[0], golden.peaks[column]) << "column " << column;
      };
      expect(schedule_one_f_one_b(request), 0);
      request.extra_warm_up.assign(static_cast<size_t>(golden.ranks), 1);
      request.extra_warm_up.back() = 0;
      expect(schedule_one_f_one_b(request), 1);
      for (int r = 0; r < golden.ranks; ++r) {
        request.extra_warm_up[static_cast<size_t>(r)] = golden.ranks - 1 - r;
      }
      expect(schedule_one_f_one_b(request), 2);
      expect(schedule_gpipe(request), 3);
    }
  }
}

TEST(FixedSchedules, OrdersOfChunksAndOfSplitPassesArePrinted) {
  const ScheduleRequest looped = equal_stages(looped_ranks(4, 2), 4, 0);
  EXPECT_EQ(to_text(schedule_gpipe(equal_stages(looped_ranks(4, 2), 1, 0))),
            "rank 0: F0.0 F0.2 B0.2 B0.0\n"
            "rank 1: F0.1 F0.3 B0.3 B0.1\n");
  EXPECT_EQ(to_text(schedule_interleaved(looped)),
            "rank 0: F0.0 F1.0 F0.2 F1.2 F2.0 B0.2 F3.0 B1.2 F2.2 B0.0 F3.2 B1.0 B2.2 B3.2 B2.0 B3.0\n"
            "rank 1: F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 F2.1 B0.1 F3.1 B1.1 F2.3 B2.3 F3.3 B3.3 B2.1 B3.1\n");
  EXPECT_EQ(to_text(schedule_zb1p(equal_stages(looped_ranks(4, 2), 2, 0))),
            "rank 0: F0.0 F1.0 F0.2 F1.2 I0.2 W0.2 I1.2 W1.2 I0.0 W0.0 I1.0 W1.0\n"
            "rank 1: F0.1 F1.1 F0.3 I0.3 F1.3 I1.3 W0.3 I0.1 W1.3 I1.1 W0.1 W1.1\n");
  EXPECT_EQ(to_text(schedule_zb_h1(equal_stages(looped_ranks(2, 2), 3, 0))),
            "rank 0: F0 F1 I0 W0 F2 I1 W1 I2 W2\n"
            "rank 1: F0 I0 F1 I1 W0 F2 I2 W1 W2\n");
  EXPECT_EQ(to_text(schedule_zb_v(equal_stages(folded_ranks(2), 3, 0))),
            "rank 0: F0.0 F1.0 F2.0 F0.3 I0.3 W0.3 F1.3 I1.3 W1.3 I0.0 W0.0 F2.3 I2.3 W2.3 I1.0 W1.0 I2.0 W2.0\n"
            "rank 1: F0.1 F0.2 F1.1 F1.2 I0.2 W0.2 F2.1 I0.1 W0.1 F2.2 I1.2 W1.2 I1.1 I2.2 I2.1 W1.1 W2.2 W2.1\n");
}

// Head passes of the last stage, which zb_v has on the first rank.
TEST(FixedSchedules, HeadPassesFollowTheForwardPassesOfTheLastStage) {
  ScheduleRequest request = equal_stages(folded_ranks(2), 2, 0);
  request.head_passes = 2;
  request.head = 0.5;
  EXPECT_EQ(to_text(schedule_zb_v(request)),
            "rank 0: F0.0 F1.0 F0.3 H0 I0.3 W0.3 F1.3 H1 I1.3 W1.3 I0.0 W0.0 I1.0 W1.0\n"
            "rank 1: F0.1 F0.2 F1.1 H0 F1.2 I0.2 W0.2 H1 I0.1 W0.1 I1.2 W1.2 I1.1 W1.1\n");
  ScheduleRequest looped = equal_stages(looped_ranks(4, 2), 2, 0);
  looped.head_passes = 2;
  EXPECT_EQ(to_text(schedule_interleaved(looped)),
            "rank 0: F0.0 F1.0 F0.2 F1.2 H0 B0.2 H1 B1.2 B0.0 B1.0\n"
            "rank 1: F0.1 F1.1 F0.3 H0 B0.3 F1.3 H1 B1.3 B0.1 B1.1\n");
}

// The properties of all schedules that exist for random requests: they obey the rules, their ranks do not deadlock, and
// they take at least as long as the busiest rank works.
TEST(FixedSchedules, SchedulesOfRandomRequestsObeyTheRules) {
  std::array<int, 6> made{};
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const ScheduleRequest request = testing::random_request(seed);
    for (size_t k = 0; k < fixed_schedules().size(); ++k) {
      const FixedSchedule& fixed = fixed_schedules()[k];
      if (!fixed.check(request).ok()) {
        continue;
      }
      ++made[k];
      const Schedule schedule = fixed.make(request);
      const Status good = check_schedule(schedule);
      ASSERT_TRUE(good.ok()) << "seed " << seed << ", " << fixed.name << ": " << good.error().message << "\n"
                             << to_text(schedule);
      std::vector<Seconds> work(request.extra_warm_up.size(), 0);
      for (size_t r = 0; r < work.size(); ++r) {
        for (const Action& action : schedule.orders[r]) {
          const auto s = static_cast<size_t>(action.stage);
          work[r] += action.kind == ActionKind::kForward          ? request.forward[s]
                     : action.kind == ActionKind::kBackward       ? request.backward[s]
                     : action.kind == ActionKind::kInputGradient  ? request.input_gradient[s]
                     : action.kind == ActionKind::kWeightGradient ? request.weight_gradient[s]
                                                                  : 0;
        }
      }
      EXPECT_GE(simulate(schedule, request).makespan, std::ranges::max(work) * (1 - 1e-12))
          << "seed " << seed << ", " << fixed.name;
    }
  }
  for (size_t k = 0; k < made.size(); ++k) {
    EXPECT_GE(made[k], 100) << fixed_schedules()[k].name;
  }
}

TEST(FixedSchedules, InterleavedSchedulesExistForAllNumbersThatTheirCheckAccepts) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int chunks = 2; chunks <= 4; ++chunks) {
      for (int micro_batches = 1; micro_batches <= 24; ++micro_batches) {
        const ScheduleRequest request = equal_stages(looped_ranks(ranks * chunks, ranks), micro_batches, 0.1);
        for (const FixedSchedule& fixed : fixed_schedules()) {
          if (fixed.check(request).ok()) {
            EXPECT_TRUE(check_schedule(fixed.make(request)).ok())
                << fixed.name << ": " << ranks << " ranks, " << chunks << " chunks, " << micro_batches;
          }
        }
      }
    }
  }
}

std::string refusal(std::string_view name, const ScheduleRequest& request) {
  const auto fixed = std::ranges::find(fixed_schedules(), name, &FixedSchedule::name);
  const Status status = fixed->check(request);
  return status.ok() ? "" : status.error().message + "; " + status.error().help;
}

TEST(FixedSchedules, RefusalsNameLegalValues) {
  const auto looped = [](int stages, int ranks, int micro_batches) {
    ScheduleRequest request{.forward = std::vector<Seconds>(static_cast<size_t>(stages), 1),
                            .rank_of_stage = looped_ranks(stages, ranks),
                            .micro_batches = micro_batches};
    return request;
  };
  EXPECT_EQ(refusal("interleaved", looped(4, 4, 8)),
            "interleaved with 4 stages on 4 ranks: each rank has the same number of stages, at least 2; 8 stages");
  EXPECT_EQ(refusal("zb1p", looped(10, 4, 8)),
            "zb1p with 10 stages on 4 ranks: each rank has the same number of stages, at least 2; 8 or 12 stages");
  EXPECT_EQ(refusal("interleaved", looped(8, 4, 9)),
            "interleaved of 9 micro-batches on 4 ranks: they run in 2 rounds of equal size; 8 or 10 micro-batches for "
            "each replica");
  EXPECT_EQ(refusal("interleaved", looped(8, 4, 7)), "") << "fewer than two rounds";
  EXPECT_EQ(refusal("one_f_one_b", looped(8, 4, 8)),
            "one_f_one_b with 8 stages on 4 ranks: each rank has one stage; 4 stages");
  EXPECT_EQ(refusal("zb_v", looped(4, 4, 8)), "zb_v with 4 stages on 4 ranks: each rank has two stages; 8 stages");
  EXPECT_EQ(refusal("zb_v", looped(8, 4, 8)), "zb_v with stage 4 on rank 0; put it on rank 3");
  ScheduleRequest folded = looped(8, 4, 8);
  folded.rank_of_stage = folded_ranks(4);
  EXPECT_EQ(refusal("zb_v", folded), "");
  EXPECT_EQ(refusal("interleaved", folded), "interleaved with stage 4 on rank 3; put it on rank 0");
  EXPECT_EQ(refusal("gpipe", folded), "");
  folded.head_passes = 1;
  EXPECT_EQ(refusal("gpipe", folded), "");
  EXPECT_THAT(refusal("zb_v", folded), HasSubstr("one head pass for each micro-batch, or gpipe"));
  ScheduleRequest early = looped(3, 3, 8);
  early.extra_warm_up = {0, 2, 0};
  EXPECT_EQ(refusal("one_f_one_b", early),
            "one_f_one_b with 2 more forward passes first on rank 1; 0 .. 1, since rank 0 has 0 more");
  EXPECT_FALSE(check_schedule(schedule_one_f_one_b(early)).ok()) << "rank 1 waits for F2, and rank 0 for B0";
}

}  // namespace
}  // namespace xrun::planner
