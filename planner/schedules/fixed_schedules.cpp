// Tests: tests/planner/schedules/fixed_schedules_test.cpp
#include "planner/schedules/fixed_schedules.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace xrun::planner {
namespace {

Error refuse(std::string message, std::string help) {
  return {ErrorKind::kInfeasible, "XG0606", std::move(message), std::move(help)};
}

// The number of rounds of an interleaved schedule.
int rounds_of(int micro_batches, int ranks) { return std::max(1, micro_batches / ranks); }

Status check_placement(const std::string& name, const Schedule& schedule, const std::vector<int>& expected) {
  for (size_t s = 0; s < expected.size(); ++s) {
    if (schedule.rank_of_stage[s] != expected[s]) {
      return refuse(fmt::format("{} with stage {} on rank {}", name, s, schedule.rank_of_stage[s]),
                    fmt::format("put it on rank {}", expected[s]));
    }
  }
  return {};
}

// Head passes of a whole step begin after all forward passes.
Status check_heads(const std::string& name, const ScheduleRequest& request) {
  if (request.head_passes == 1 && request.micro_batches > 1) {
    return refuse(name + " with one head pass for the step: backward passes begin before all features are made",
                  "one head pass for each micro-batch, or gpipe");
  }
  return {};
}

Status check_gpipe(const ScheduleRequest&) { return {}; }

Status check_single(const std::string& name, const ScheduleRequest& request) {
  const Schedule schedule = empty_schedule(request);
  if (schedule.stages() != schedule.ranks()) {
    return refuse(fmt::format("{} with {} stages on {} ranks: each rank has one stage", name, schedule.stages(),
                              schedule.ranks()),
                  fmt::format("{} stages", schedule.ranks()));
  }
  XRUN_TRY(check_placement(name, schedule, looped_ranks(schedule.stages(), schedule.ranks())));
  return check_heads(name, request);
}

// Rank r + 1 must not need more forward passes before its first backward pass than rank r runs before its own.
Status check_one_f_one_b(const ScheduleRequest& request) {
  XRUN_TRY(check_single("one_f_one_b", request));
  const std::vector<int>& extra = request.extra_warm_up;
  for (size_t r = 0; r < extra.size(); ++r) {
    const int most = r == 0 ? extra[r] : extra[r - 1] + 1;
    if (extra[r] < 0 || extra[r] > most) {
      return refuse(
          fmt::format("one_f_one_b with {} more forward passes first on rank {}", extra[r], r),
          r == 0 ? "at least 0" : fmt::format("0 .. {}, since rank {} has {} more", most, r - 1, extra[r - 1]));
    }
  }
  return {};
}

Status check_rounds(const std::string& name, int micro_batches, int ranks) {
  const auto legal = [&](int count) { return count % rounds_of(count, ranks) == 0; };
  if (legal(micro_batches)) {
    return {};
  }
  int less = micro_batches;  // 1 is legal
  int more = micro_batches;  // all multiples of the ranks are
  while (!legal(less)) {
    --less;
  }
  while (!legal(more)) {
    ++more;
  }
  return refuse(fmt::format("{} of {} micro-batches on {} ranks: they run in {} rounds of equal size", name,
                            micro_batches, ranks, rounds_of(micro_batches, ranks)),
                fmt::format("{} or {} micro-batches for each replica", less, more));
}

Status check_looped(const std::string& name, const ScheduleRequest& request) {
  const Schedule schedule = empty_schedule(request);
  const int ranks = schedule.ranks();
  const int chunks = schedule.stages() / ranks;
  if (chunks < 2 || schedule.stages() % ranks != 0) {
    return refuse(fmt::format("{} with {} stages on {} ranks: each rank has the same number of stages, at least 2",
                              name, schedule.stages(), ranks),
                  chunks < 2 ? fmt::format("{} stages", 2 * ranks)
                             : fmt::format("{} or {} stages", chunks * ranks, (chunks + 1) * ranks));
  }
  XRUN_TRY(check_placement(name, schedule, looped_ranks(schedule.stages(), ranks)));
  XRUN_TRY(check_rounds(name, request.micro_batches, ranks));
  return check_heads(name, request);
}

Status check_folded(const ScheduleRequest& request) {
  const Schedule schedule = empty_schedule(request);
  if (schedule.stages() != 2 * schedule.ranks()) {
    return refuse(
        fmt::format("zb_v with {} stages on {} ranks: each rank has two stages", schedule.stages(), schedule.ranks()),
        fmt::format("{} stages", 2 * schedule.ranks()));
  }
  XRUN_TRY(check_placement("zb_v", schedule, folded_ranks(schedule.ranks())));
  return check_heads("zb_v", request);
}

constexpr std::array kSchedules{
    FixedSchedule{"gpipe", false, check_gpipe, schedule_gpipe},
    FixedSchedule{"one_f_one_b", false, check_one_f_one_b, schedule_one_f_one_b},
    FixedSchedule{"interleaved", false, [](const ScheduleRequest& r) { return check_looped("interleaved", r); },
                  schedule_interleaved},
    FixedSchedule{"zb1p", true, [](const ScheduleRequest& r) { return check_looped("zb1p", r); }, schedule_zb1p},
    FixedSchedule{"zb_h1", true, [](const ScheduleRequest& r) { return check_single("zb_h1", r); }, schedule_zb_h1},
    FixedSchedule{"zb_v", true, check_folded, schedule_zb_v}};

}  // namespace

std::span<const FixedSchedule> fixed_schedules() { return kSchedules; }

std::vector<int> looped_ranks(int stages, int ranks) {
  std::vector<int> placed;
  for (int s = 0; s < stages; ++s) {
    placed.push_back(s % ranks);
  }
  return placed;
}

std::vector<int> folded_ranks(int ranks) {
  std::vector<int> placed;
  for (int s = 0; s < 2 * ranks; ++s) {
    placed.push_back(s < ranks ? s : 2 * ranks - 1 - s);
  }
  return placed;
}

int round_size(const ScheduleRequest& request) {
  return request.micro_batches / rounds_of(request.micro_batches, empty_schedule(request).ranks());
}

}  // namespace xrun::planner
