// The rules of schedules: broken orders are refused, with the fault and its place.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <tuple>

#include "planner/schedules/simulate_schedule.h"
#include "tests/planner/schedules/requests.h"

namespace xrun::planner {
namespace {

using ::testing::HasSubstr;
using enum ActionKind;

std::string fault_of(const Schedule& schedule) {
  const Status status = check_schedule(schedule);
  return status.ok() ? "" : status.error().message;
}

// Rank 0: F0.0 F1.0 F0.3 H0 I0.3 W0.3 F1.3 H1 I1.3 W1.3 I0.0 W0.0 I1.0 W1.0
// Rank 1: F0.1 F0.2 F1.1 H0 F1.2 I0.2 W0.2 H1 I0.1 W0.1 I1.2 W1.2 I1.1 W1.1
Schedule folded() {
  ScheduleRequest request = testing::equal_stages(folded_ranks(2), 2, 0);
  request.head_passes = 2;
  return schedule_zb_v(request);
}

// Stages 0, 2 on rank 0 and 1, 3 on rank 1. Rank 1: F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1
Schedule looped() { return schedule_interleaved(testing::equal_stages(looped_ranks(4, 2), 2, 0)); }

// Returns the position of an action in the order of a rank.
auto find(std::vector<Action>& order, const Action& action) {
  const auto at = std::ranges::find(order, action);
  EXPECT_TRUE(at != order.end()) << to_text(action, true);
  return at;
}

Schedule swapped(Schedule schedule, size_t rank, const Action& one, const Action& other) {
  auto& order = schedule.orders[rank];
  std::iter_swap(find(order, one), find(order, other));
  return schedule;
}

TEST(CheckSchedule, FaultsHaveTheirPlace) {
  ASSERT_EQ(fault_of(folded()), "");
  ASSERT_EQ(fault_of(looped()), "");
  EXPECT_EQ(fault_of(swapped(folded(), 0, {kForward, 0, 0}, {kForward, 1, 0})),
            "schedule: rank 0: F1.0 comes before F0.0");
  EXPECT_EQ(fault_of(swapped(folded(), 0, {kInputGradient, 0, 3}, {kWeightGradient, 0, 3})),
            "schedule: rank 0: W0.3 comes before I0.3");
  EXPECT_EQ(fault_of(swapped(folded(), 0, {kWeightGradient, 0, 0}, {kWeightGradient, 1, 0})),
            "schedule: rank 0: W1.0 comes before W0.0");
  EXPECT_EQ(fault_of(swapped(folded(), 0, {kHead, 0}, {kForward, 0, 3})),
            "schedule: rank 0: H0 is not between F0.3 and I0.3");
  EXPECT_EQ(fault_of(swapped(folded(), 1, {kHead, 0}, {kHead, 1})), "schedule: rank 1: H1 comes before H0");
  EXPECT_EQ(fault_of(swapped(looped(), 1, {kBackward, 0, 1}, {kBackward, 1, 1})),
            "schedule: rank 1: B1.1 comes before B0.1");
}

TEST(CheckSchedule, MissingAndForeignPassesAreNamed) {
  const auto with = [](Schedule schedule, const Action& action) {
    schedule.orders[0].push_back(action);
    return fault_of(schedule);
  };
  EXPECT_EQ(with(folded(), {kWeightGradient, 1, 0}), "schedule: rank 0: W1.0 comes twice");
  EXPECT_EQ(with(folded(), {kBackward, 1, 0}), "schedule: rank 0: B1.0 and I1.0 are the same pass");
  EXPECT_EQ(with(looped(), {kWeightGradient, 1, 0}), "schedule: rank 0: W1.0 comes without I1.0");
  EXPECT_EQ(with(looped(), {kInputGradient, 1, 0}), "schedule: rank 0: B1.0 and I1.0 are the same pass");
  EXPECT_EQ(with(looped(), {kForward, 2, 0}), "schedule: rank 0: F2.0 is not a pass of this step");
  EXPECT_EQ(with(looped(), {kForward, 0, 1}), "schedule: rank 0: F0.1 belongs to a stage of another rank");
  EXPECT_EQ(with(looped(), {kForward, 0, 4}), "schedule: rank 0: F0.4 belongs to a stage of another rank");
  EXPECT_EQ(with(looped(), {kHead, 0}), "schedule: rank 0: H0 is not a pass of this step");
  const auto without = [](Schedule schedule, const Action& action) {
    std::erase(schedule.orders[0], action);
    return fault_of(schedule);
  };
  EXPECT_EQ(without(folded(), {kForward, 1, 3}), "schedule: rank 0: F1.3 is missing");
  EXPECT_EQ(without(folded(), {kInputGradient, 1, 3}), "schedule: rank 0: B1.3 is missing");
  EXPECT_EQ(without(folded(), {kWeightGradient, 1, 3}), "schedule: rank 0: W1.3 is missing");
  EXPECT_EQ(without(looped(), {kBackward, 0, 2}), "schedule: rank 0: B0.2 is missing");
  EXPECT_EQ(without(folded(), {kHead, 1}), "schedule: rank 0: H1 is missing");
  Schedule inference = schedule_inference(testing::equal_stages(looped_ranks(4, 2), 2, 0));
  EXPECT_EQ(fault_of(inference), "");
  EXPECT_EQ(with(inference, {kBackward, 0, 0}), "schedule: rank 0: B0.0 is not a pass of this step");
}

TEST(CheckSchedule, EveryRankHasAStage) {
  Schedule schedule = looped();
  schedule.rank_of_stage[3] = 2;
  EXPECT_EQ(fault_of(schedule), "schedule: stage 3 is on rank 2 of 2");
  schedule = looped();
  schedule.orders.emplace_back();
  EXPECT_EQ(fault_of(schedule), "schedule: rank 2 has no stage");
}

// A deadlock is reported with the action before which each rank waits.
TEST(CheckSchedule, DeadlocksNameTheActionsBeforeWhichRanksWait) {
  EXPECT_EQ(fault_of(swapped(looped(), 0, {kForward, 1, 2}, {kBackward, 1, 2})),
            "schedule: rank 0: B1.2 comes before F1.2");
  // Rank 0 needs B0.3 for B0.2, but rank 1 waits for F1.2.
  Schedule stuck = looped();  // rank 0: F0.0 F1.0 F0.2 F1.2 B0.2 B1.2 B0.0 B1.0
  auto& order = stuck.orders[0];
  std::iter_swap(find(order, {kForward, 1, 2}), find(order, {kBackward, 0, 2}));
  auto& other = stuck.orders[1];  // F0.1 F1.1 F0.3 F1.3 B0.3 B1.3 B0.1 B1.1
  std::iter_swap(find(other, {kForward, 1, 3}), find(other, {kBackward, 0, 3}));
  EXPECT_EQ(fault_of(stuck), "schedule: rank 0 waits for ever before B0.2, rank 1 before F1.3");
  // Stage 0 needs the head pass for B0, but does not reach it.
  ScheduleRequest request = testing::equal_stages(looped_ranks(2, 2), 1, 0);
  request.head_passes = 1;
  EXPECT_EQ(fault_of(swapped(schedule_gpipe(request), 0, {kHead, 0}, {kBackward, 0, 0})),
            "schedule: rank 0 waits for ever before B0, rank 1 before H0");
}

// An independent judge of deadlocks: the actions, with a head pass as one action of all ranks, have an order in which
// each comes after the one before it on its rank and after those on which it depends.
bool has_order(const Schedule& schedule) {
  using Key = std::tuple<ActionKind, int, int>;
  const auto key = [](const Action& a) {  // whole backward passes and gradients of inputs make the same values
    return Key{a.kind == kBackward ? kInputGradient : a.kind, a.index, a.stage};
  };
  std::map<Key, std::set<Key>> needs;
  for (const auto& order : schedule.orders) {
    for (size_t at = 0; at < order.size(); ++at) {
      const Action& action = order[at];
      auto& mine = needs[key(action)];
      if (at > 0) {
        mine.insert(key(order[at - 1]));
      }
      if (action.kind == kForward && action.stage > 0) {
        mine.insert({kForward, action.index, action.stage - 1});
      } else if (action.kind == kBackward || action.kind == kInputGradient) {
        mine.insert({kForward, action.index, action.stage});
        if (action.stage + 1 < schedule.stages()) {
          mine.insert({kInputGradient, action.index, action.stage + 1});
        } else if (schedule.head_passes > 0) {
          mine.insert({kHead, schedule.head_passes == 1 ? 0 : action.index, 0});
        }
      }
    }
  }
  std::set<Key> done;
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& [one, of_one] : needs) {
      moved = (!done.contains(one) && std::ranges::includes(done, of_one) && done.insert(one).second) || moved;
    }
  }
  return done.size() == needs.size();
}

// Schedules of random requests, changed at random places.
TEST(CheckSchedule, ChangedOrdersAreRefusedUnlessTheyObeyTheRules) {
  int good = 0;
  int stuck = 0;
  int broken = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const ScheduleRequest request = testing::random_request(seed);
    testing::Draws draws(seed, 8);
    for (const FixedSchedule& fixed : fixed_schedules()) {
      if (!fixed.check(request).ok()) {
        continue;
      }
      const Schedule schedule = fixed.make(request);
      const auto rank = static_cast<size_t>(draws.below(schedule.ranks()));
      const auto size = static_cast<int>(schedule.orders[rank].size());
      const int at = draws.below(size);
      Schedule missing = schedule;
      missing.orders[rank].erase(missing.orders[rank].begin() + at);
      EXPECT_FALSE(check_schedule(missing).ok()) << "seed " << seed << ", " << fixed.name << ", without action " << at;
      Schedule twice = schedule;
      twice.orders[rank].insert(twice.orders[rank].begin() + draws.below(size), schedule.orders[rank][at]);
      EXPECT_FALSE(check_schedule(twice).ok()) << "seed " << seed << ", " << fixed.name << ", twice action " << at;
      Schedule changed = schedule;
      auto& order = changed.orders[rank];
      const int to = std::clamp(at + draws.between(-3, 3), 0, size - 1);  // the action moves by a few places
      const Action moved = order[static_cast<size_t>(at)];
      order.erase(order.begin() + at);
      order.insert(order.begin() + to, moved);
      const std::string fault = fault_of(changed);
      if (fault.empty()) {
        ++good;
        EXPECT_TRUE(has_order(changed)) << "seed " << seed << ", " << fixed.name << "\n" << to_text(changed);
        EXPECT_GE(simulate(changed, request).makespan, 0);  // ends the process if it is stuck
      } else if (fault.find("waits for ever") != std::string::npos) {
        ++stuck;
        EXPECT_FALSE(has_order(changed)) << "seed " << seed << ", " << fixed.name << "\n" << to_text(changed);
      } else {
        ++broken;
      }
    }
  }
  EXPECT_GE(good, 100);
  EXPECT_GE(stuck, 100);
  EXPECT_GE(broken, 100);
}

}  // namespace
}  // namespace xrun::planner
