// The schedule of a step in the data of a page: the instructions of the devices that are drawn, as columns.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "planner/cost/simulate.h"
#include "planner/program/plan.h"
#include "planner/report/page/measured_times.h"

namespace xrun::planner {

int64_t whole_nanoseconds(Seconds time);

struct DrawnSchedule {
  std::vector<int> devices;         // the devices that are drawn
  nlohmann::ordered_json json;      // `schedule` of page_json
  nlohmann::ordered_json measured;  // `measured` of page_json
};

DrawnSchedule draw_schedule(const Plan& plan, const ProgramTimes& times, const MeasuredTimes* measured);

}  // namespace xrun::planner
