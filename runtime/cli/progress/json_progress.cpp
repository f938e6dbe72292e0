// Tests: tests/runtime/cli/commands/command_test.cpp, tests/runtime/cli/progress/run_log_test.cpp
#include "runtime/cli/progress/json_progress.h"

#include <cmath>

namespace xrun::cli {
namespace {

using runtime::DeviceTimes;
using Json = nlohmann::ordered_json;

void emit(const ProgressPort& port, const char* kind, const Json& fields) {
  Json event{{"v", 1}, {"t", kind}, {"time", port.now()}};
  event.update(fields);
  port.write(json_line(event));
}

Json by_device(const std::vector<DeviceTimes>& devices, Seconds DeviceTimes::*part) {
  Json list = Json::array();
  for (const DeviceTimes& times : devices) {
    list.push_back(times.*part);
  }
  return list;
}

}  // namespace

Json evaluation_json(const std::vector<runtime::Measured>& metrics,
                     const std::vector<runtime::MeasuredSource>& sources) {
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
  return json;
}

void JsonProgress::on_start(const runtime::StartEvent& e) {
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
  emit(port_, "start", event);
}

void JsonProgress::on_plan(const runtime::PlanEvent& e) {
  Json event{{"plan", e.plan}};
  if (!e.file.empty()) {
    event["file"] = e.file;
  }
  emit(port_, "plan", event);
}

void JsonProgress::on_resume(int64_t step, const std::string& path) {
  emit(port_, "resume", {{"step", step}, {"path", path}});
}

void JsonProgress::on_step(const runtime::StepReport& s, bool) {
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
  for (const runtime::ActiveReport& active : s.active) {
    Json one{{"head", active.head}, {"classes", active.classes}, {"near", active.near}, {"common", active.common}};
    if (!std::isnan(active.mass)) {
      one["mass"] = active.mass;
    }
    event["active"].push_back(one);
  }
  emit(port_, "step", event);
}

void JsonProgress::on_eval(const runtime::EvalEvent& e) {
  Json event{{"step", e.step}};
  event.update(evaluation_json(e.metrics, e.sources));
  event["seconds"] = e.seconds;
  emit(port_, "eval", event);
}

void JsonProgress::on_graph(const runtime::GraphEvent& e) {
  emit(port_, "graph",
       {{"step", e.step},
        {"head", e.head},
        {"of_step", e.of_step},
        {"recall", e.recall},
        {"seconds", e.seconds},
        {"waited_s", e.waited}});
}

void JsonProgress::on_checkpoint(const runtime::CheckpointEvent& e) {
  Json fields = {{"step", e.step}, {"path", e.path}, {"bytes", e.bytes}, {"seconds", e.seconds}};
  if (e.waited < e.seconds) {
    fields["waited_s"] = e.waited;
  }
  if (e.interval > 0) {
    fields["next_s"] = e.interval;
  }
  emit(port_, "checkpoint", fields);
}

void JsonProgress::on_copy(const runtime::CopyEvent& e) {
  emit(port_, "copy", {{"step", e.step}, {"path", e.path}, {"bytes", e.bytes}, {"seconds", e.seconds}});
}

void JsonProgress::on_profile(const runtime::ProfileEvent& e) {
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
  emit(port_, "profile",
       {{"first_step", e.first_step},
        {"steps", e.steps},
        {"step_s", e.step},
        {"data_s", e.data_wait},
        {"outside_s", e.outside},
        {"predicted_step_s", e.predicted_step},
        {"rows", std::move(rows)}});
}

void JsonProgress::on_note(const std::string& message) { emit(port_, "note", {{"message", message}}); }

void JsonProgress::on_warn(const runtime::WarnEvent& e) {
  emit(port_, "warn", {{"code", e.code}, {"message", e.message}});
}

void JsonProgress::on_stop(const runtime::StopEvent& e) {
  emit(port_, "stop", {{"step", e.step}, {"reason", e.reason}});
}

void JsonProgress::on_end(const runtime::EndEvent& e) {
  emit(port_, "end",
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
        {"peak_resident", e.peak_resident}});
}

}  // namespace xrun::cli
