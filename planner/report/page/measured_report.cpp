// Tests: tests/planner/report/page/measured_times_test.cpp
#include "planner/report/page/measured_report.h"

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/report/json.h"
#include "planner/report/page/instructions_json.h"
#include "planner/report/summary.h"
#include "planner/report/table.h"

namespace xrun::planner {
namespace {

struct KindTimes {
  int count = 0;
  Seconds predicted = 0;
  Seconds measured = 0;
};

std::string ratio_text(Seconds measured, Seconds predicted) {
  return predicted > 0 ? fmt::format("{:.2f}", measured / predicted) : "-";
}

// Returns the device with the longest measured computations.
int busiest_device(const Program& program, const MeasuredTimes& measured) {
  std::map<int, Seconds> sums;
  int busiest = 0;
  for (const Instruction& one : program.instructions) {
    const MeasuredTime& run = measured.instructions[static_cast<size_t>(one.id.index)];
    if (run.known() && one.stream == Stream::kCompute && one.device != kHost) {
      sums[one.device] += run.end - run.begin;
      busiest = sums[one.device] > sums[busiest] ? one.device : busiest;
    }
  }
  return busiest;
}

}  // namespace

std::string measured_text(const Plan& plan, const MeasuredTimes& measured) {
  const ProgramTimes times = times_of(plan);
  const int device = busiest_device(plan.training, measured);
  std::map<Kind, KindTimes> kinds;
  for (const Instruction& one : plan.training.instructions) {
    const auto index = static_cast<size_t>(one.id.index);
    const MeasuredTime& run = measured.instructions[index];
    if (run.known() && one.device == device) {
      KindTimes& kind = kinds[one.kind];
      ++kind.count;
      kind.predicted += times.instructions[index].end - times.instructions[index].start;
      kind.measured += run.end - run.begin;
    }
  }
  TextTable table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight});
  table.add({"instructions", "number", "predicted", "measured", "ratio"});
  for (const auto& [kind, sum] : kinds) {
    table.add({name_of(kind), format_count(sum.count), format_seconds(sum.predicted), format_seconds(sum.measured),
               ratio_text(sum.measured, sum.predicted)});
  }
  table.add_rule();
  table.add({"whole step", "", format_seconds(plan.predicted.step), format_seconds(measured.step),
             ratio_text(measured.step, plan.predicted.step)});
  return "plan " + plan.id + " on device " + std::to_string(device) + ", medians of " + format_count(measured.steps) +
         (measured.steps == 1 ? " step\n" : " steps\n") + table.text("");
}

std::string measured_gantt_json(const Plan& plan, const MeasuredTimes& measured) {
  nlohmann::ordered_json document = gantt_document(plan);
  document["measured"] = {{"steps", measured.steps}, {"step_seconds", measured.step}};
  for (nlohmann::ordered_json& one : document["instructions"]) {
    const MeasuredTime& run = measured.instructions[one["id"].get<size_t>()];
    if (run.known()) {
      one["measured_begin"] = run.begin;
      one["measured_end"] = run.end;
    }
  }
  return document_text(document);
}

}  // namespace xrun::planner
