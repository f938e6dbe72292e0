// The schedules whose orders follow from formulas, and the requests for which each of them exists.
#pragma once

#include <span>
#include <string_view>

#include "planner/schedules/schedule.h"

namespace xrun::planner {

struct FixedSchedule {
  std::string_view name;  // "zb_v"
  bool splits = false;    // whether it splits backward passes; then the request needs their times
  // Checks that the schedule exists for the stages, ranks, micro-batches and head passes of the request. Errors:
  // kInfeasible XG0606, whose help has legal values.
  Status (*check)(const ScheduleRequest& request) = nullptr;
  Schedule (*make)(const ScheduleRequest& request) = nullptr;  // REQUIRES: `check` has accepted the request
};

// gpipe, one_f_one_b, interleaved, zb1p, zb_h1, zb_v.
std::span<const FixedSchedule> fixed_schedules();

// Stage s is on rank s mod p: the placement of interleaved and zb1p, and with one stage a rank of all others but zb_v.
std::vector<int> looped_ranks(int stages, int ranks);
// Stages r and 2p - 1 - r are on rank r: the placement of zb_v.
std::vector<int> folded_ranks(int ranks);

// Interleaved schedules run m micro-batches on p ranks in floor(m / p) rounds of this size, or in one round if m < p.
// REQUIRES: `check` of `interleaved` or `zb1p` has accepted the request.
int round_size(const ScheduleRequest& request);

Schedule schedule_interleaved(const ScheduleRequest& request);
Schedule schedule_zb1p(const ScheduleRequest& request);
Schedule schedule_zb_h1(const ScheduleRequest& request);
Schedule schedule_zb_v(const ScheduleRequest& request);

}  // namespace xrun::planner
