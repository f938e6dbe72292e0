// Tests: tests/runtime/cli/commands/command_test.cpp, tests/runtime/cli/progress/run_log_test.cpp
#include "runtime/cli/progress/json_progress.h"

#include <cmath>
#include <utility>
#include <variant>

#include "graph/base/overloaded.h"
#include "runtime/cli/progress/verified_text.h"

namespace xrun::cli {
namespace {

using runtime::DeviceTimes;
using Json = nlohmann::ordered_json;

// The `t` of an event, and its other fields.
struct Line {
  const char* kind;
  Json fields;
};

Json by_device(const std::vector<DeviceTimes>& devices, Seconds DeviceTimes::*part) {
  Json list = Json::array();
  for (const DeviceTimes& times : devices) {
    list.push_back(times.*part);
  }
  return list;
}

Line line_of(const runtime::StartEvent& e) {
  Json event{{"model", e.model},
             {"devices", e.devices},
             {"first_step", e.first_step},
             {"steps", e.steps},
             {"steps_per_epoch", e.steps_per_epoch},
             {"samples", e.samples},
             {"synthetic", e.synthetic},
             {"batch", e.batch},
             {"predicted_step_s", e.predicted_step},
             {"memory", e.memory},
             {"memory_planned", e.memory_planned},
             {"memory_usable", e.memory_usable}};
  if (e.last_batch > 0) {
    event["last_batch"] = e.last_batch;
  }
  if (e.ranks > 1) {
    event["ranks"] = e.ranks;
    event["hosts"] = e.hosts;
  }
  return {"start", std::move(event)};
}

Line line_of(const runtime::PlanEvent& e) {
  Json event{{"plan", e.plan}};
  if (!e.file.empty()) {
    event["file"] = e.file;
  }
  return {"plan", std::move(event)};
}

Line line_of(const runtime::ResumeEvent& e) { return {"resume", {{"step", e.step}, {"path", e.path}}}; }

Line line_of(const runtime::StepEvent& e) {
  const runtime::StepReport& s = e.report;
  Json event{{"step", s.step},
             {"epoch", s.epoch},
             {"loss", s.line.loss},
             {"lr", s.lr},
             {"images_per_s", s.line.samples_per_second},
             {"eval_s", s.line.evaluation},
             {"save_s", s.line.saves},
             {"step_s", s.line.step},
             {"compute_s", s.compute},
             {"comm_s", s.exposed_comm},
             {"busy_s", by_device(s.devices, &DeviceTimes::busy)},
             {"bubble_s", by_device(s.devices, &DeviceTimes::idle)},
             {"data_s", s.line.data_wait},
             {"memory", s.memory},
             {"resident", s.resident}};
  if (s.batch_grows) {
    event["batch"] = s.batch;
  }
  for (const auto& [name, value] : s.line.metrics) {
    event[name] = value;
  }
  if (s.grad_norm > 0) {
    event["grad_norm"] = s.grad_norm;
  }
  if (s.loss_scale > 0) {
    event["loss_scale"] = s.loss_scale;
    event["skipped_steps"] = s.skipped_steps;
  }
  for (const runtime::ActiveReport& active : s.active) {
    Json one{{"head", active.head}, {"classes", active.classes}, {"near", active.near}, {"common", active.common}};
    if (!std::isnan(active.mass)) {
      one["mass"] = active.mass;
    }
    event["active"].push_back(one);
  }
  return {"step", std::move(event)};
}

Line line_of(const runtime::EvalEvent& e) {
  Json event{{"step", e.step}};
  event.update(evaluation_json(e.metrics, e.sources, e.verified));
  event["seconds"] = e.seconds;
  return {"eval", std::move(event)};
}

Line line_of(const runtime::GraphEvent& e) {
  return {"graph",
          {{"step", e.step},
           {"head", e.head},
           {"of_step", e.of_step},
           {"recall", e.recall},
           {"seconds", e.seconds},
           {"waited_s", e.waited}}};
}

Line line_of(const runtime::CheckpointEvent& e) {
  Json fields = {{"step", e.step}, {"path", e.path}, {"bytes", e.bytes}, {"seconds", e.seconds}};
  if (e.waited < e.seconds) {
    fields["waited_s"] = e.waited;
  }
  if (e.interval > 0) {
    fields["next_s"] = e.interval;
  }
  return {"checkpoint", std::move(fields)};
}

Line line_of(const runtime::CopyEvent& e) {
  return {"copy", {{"step", e.step}, {"path", e.path}, {"bytes", e.bytes}, {"seconds", e.seconds}}};
}

Line line_of(const runtime::ProfileEvent& e) {
  constexpr const char* kSorts[] = {"compute", "comm", "idle"};
  Json rows = Json::array();
  for (const runtime::ProfileRow& row : e.rows) {
    rows.push_back({{"device", row.device},
                    {"sort", kSorts[row.sort]},
                    {"what", row.what},
                    {"count", row.count},
                    {"seconds", row.seconds},
                    {"predicted_s", row.predicted}});
  }
  return {"profile",
          {{"first_step", e.first_step},
           {"steps", e.steps},
           {"step_s", e.step},
           {"data_s", e.data_wait},
           {"outside_s", e.outside},
           {"predicted_step_s", e.predicted_step},
           {"rows", std::move(rows)}}};
}

Line line_of(const runtime::NoteEvent& e) { return {"note", {{"message", e.message}}}; }

Line line_of(const runtime::WarnEvent& e) { return {"warn", {{"code", e.code}, {"message", e.message}}}; }

Line line_of(const runtime::StopEvent& e) { return {"stop", {{"step", e.step}, {"reason", e.reason}}}; }

Line line_of(const runtime::EndEvent& e) {
  return {"end",
          {{"step", e.step},
           {"loss", e.loss},
           {"weights", e.weights},
           {"exit", e.exit},
           {"seconds", e.seconds},
           {"bad_samples", e.bad_samples},
           {"timed_steps", e.timed_steps},
           {"busy_s", by_device(e.devices, &DeviceTimes::busy)},
           {"bubble_s", by_device(e.devices, &DeviceTimes::idle)},
           {"host_sent", e.host_sent},
           {"arenas", e.arenas},
           {"peak_before_arenas", e.peak_before_arenas},
           {"peak_resident", e.peak_resident}}};
}

}  // namespace

Json evaluation_json(const std::vector<runtime::Measured>& metrics, const std::vector<runtime::MeasuredSource>& sources,
                     const std::vector<runtime::VerifiedPairs>& verified) {
  Json json{{"metrics", Json::object()},
            {"samples", Json::object()},
            {"broken", Json::object()},
            {"synthetic", Json::array()}};
  for (const runtime::Measured& one : metrics) {
    json["metrics"][one.key] = one.value;
  }
  for (const runtime::MeasuredSource& one : sources) {
    json["samples"][one.name] = one.samples;
    json["broken"][one.name] = one.broken;
    if (one.synthetic) {
      json["synthetic"].push_back(one.name);
    }
    for (const runtime::LabelCount& label : one.labels) {
      json["labelled"][one.name][label.input] = {{"labels", label.labels}, {"of", label.all}};
    }
  }
  for (const runtime::VerifiedPairs& one : verified) {
    json["verification"][one.key] = verified_json(one);
  }
  return json;
}

void JsonProgress::on(const runtime::Event& event) {
  const auto print = Overloaded{
      [](const runtime::WorkEvent&) {},
      [](const runtime::InterruptEvent&) {},
      [this](const auto& e) {
        const Line line = line_of(e);
        Json json{{"v", 1}, {"t", line.kind}, {"time", port_.now()}};
        json.update(line.fields);
        port_.write(json_line(json));
      },
  };
  std::visit(print, event);
}

}  // namespace xrun::cli
