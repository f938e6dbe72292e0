#include "planner/report/page/measured_times.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace xrun::planner {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

Error fault(const std::string& path, const std::string& what, const std::string& help) {
  return {ErrorKind::kContent, "XG0638", "`" + path + "` " + what, help};
}

bool is_time(const Json& value) { return value.is_number() && std::isfinite(value.get<double>()) && value >= 0; }

}  // namespace

std::string measured_json(const MeasuredTimes& measured) {
  Json list = Json::array();
  for (const MeasuredTime& time : measured.instructions) {
    list.push_back(time.known() ? Json{time.begin, time.end} : Json());
  }
  const Json document{{"v", kVersion},
                      {"plan", measured.plan},
                      {"steps", measured.steps},
                      {"step_seconds", measured.step},
                      {"instructions", std::move(list)}};
  return document.dump() + "\n";
}

Result<MeasuredTimes> read_measured(std::string_view text, const std::string& path, const Plan& plan) {
  const std::string help = "write one with `xrun train PLAN --profile 3`";
  const Json document = Json::parse(text, nullptr, false);
  const bool complete = document.is_object() && document.contains("plan") && document["plan"].is_string() &&
                        document.contains("step_seconds") && is_time(document["step_seconds"]) &&
                        document.contains("instructions") && document["instructions"].is_array() &&
                        document.contains("steps") && document["steps"].is_number_integer();
  if (!complete || document.value("v", Json()) != kVersion) {
    return fault(path, "is not a file of measured times of version " + std::to_string(kVersion), help);
  }
  MeasuredTimes measured{.plan = document["plan"].get<std::string>(),
                         .steps = document["steps"].get<int64_t>(),
                         .step = document["step_seconds"].get<double>(),
                         .instructions = {}};
  if (measured.plan != plan.id) {
    return fault(path, "has the times of plan " + measured.plan.substr(0, 16) + ", this is plan " + plan.id,
                 "give the file of a run of plan " + plan.id + ": xrun train PLAN --profile 3");
  }
  const Json& list = document["instructions"];
  if (list.size() != plan.training.instructions.size()) {
    return fault(path,
                 "has the times of " + std::to_string(list.size()) + " instructions, plan " + plan.id + " has " +
                     std::to_string(plan.training.instructions.size()),
                 help);
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& one = list[i];
    const bool timed = one.is_array() && one.size() == 2 && is_time(one[0]) && is_time(one[1]) && one[0] <= one[1];
    if (!timed && !one.is_null()) {
      return fault(path, "has a wrong time of instruction " + std::to_string(i) + ", which is null or [begin, end]",
                   help);
    }
    measured.instructions.push_back(timed ? MeasuredTime{one[0].get<double>(), one[1].get<double>()} : MeasuredTime());
  }
  return measured;
}

}  // namespace xrun::planner
