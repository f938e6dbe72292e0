// Tests: tests/planner/report/text_test.cpp
#include "planner/report/diff.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "graph/base/utf8.h"
#include "planner/report/explain.h"
#include "planner/report/json.h"
#include "planner/report/lines.h"
#include "planner/report/reason_text.h"
#include "planner/report/stages_json.h"
#include "planner/report/summary.h"
#include "planner/report/table.h"
#include "planner/search/space.h"

namespace xrun::planner {
namespace {

using Json = nlohmann::ordered_json;

bool is_of(const Reason& reason, std::string_view key) {
  return key_text(reason) == key || (reason.key == Reason::Key::kShards && key == "shards") ||
         (reason.key == Reason::Key::kGranularity && key == "granularity");
}

std::string flags_of(const Plan& plan) {
  std::string text;
  for (const auto& [name, value] : plan.options) {
    if (name != "file" && name != "directory") {
      text += (text.empty() ? "--" : " --") + (name.starts_with("set ") ? "set " + name.substr(4) + "=" + value
                                               : value == "true"        ? name
                                                                        : name + " " + value);
    }
  }
  return text;
}

std::string describe_stage(const Program& program, const Stage& stage) {
  const int64_t rows = program.micro_batch_rows();
  return format_count(std::ssize(stage.forward)) +
         (stage.forward.size() == 1 ? " layer, forward " : " layers, forward ") + format_seconds(stage.forward_time) +
         ", backward " + format_seconds(stage.backward_time) + " for " + format_count(rows) +
         (rows == 1 ? " row" : " rows");
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

// Returns the values of the setting `key` in an alternative and in the plan. If alternatives do not have this setting,
// the two values are equal.
std::pair<int, int> compared(const Plan& plan, const Alternative& other, const std::string& key) {
  const Program& program = plan.training;
  if (key == "stages") {
    return {other.stages, static_cast<int>(program.stages.size())};
  }
  if (key == "replicas") {
    return {other.replicas, program.replicas};
  }
  if (key == "micro_batches") {
    return {other.micro_batches, program.micro_batches};
  }
  if (key == "pipeline") {
    return {other.pipeline == program.pipeline() ? 1 : 0, 1};
  }
  if (key == "granularity") {
    return {other.one_head_pass ? 1 : 0, setting_of(program).one_head_pass ? 1 : 0};
  }
  return key == "recompute" ? std::pair(other.recomputed, recomputed_layers(program)) : std::pair(0, 0);
}

struct Why {
  std::vector<const Reason*> reasons;
  std::vector<const Alternative*> others;
};

Why explain_key(const Plan& plan, std::string_view key) {
  Why why;
  for (const Reason& reason : plan.why) {
    if (is_of(reason, key)) {
      why.reasons.push_back(&reason);
    }
  }
  for (const Alternative& other : plan.alternatives) {
    const auto [theirs, ours] = compared(plan, other, std::string(key));
    if (theirs != ours) {
      why.others.push_back(&other);
    }
  }
  return why;
}

}  // namespace

std::vector<PlanRow> plan_rows(const Plan& plan) {
  const Program& program = plan.training;
  std::vector<PlanRow> rows{
      {"plan", plan.id},
      {"model", plan.model},
      {"machine", plan.machine.name + ", " + std::to_string(plan.machine.cores) + " cores, " +
                      std::to_string(plan.machine.threads) + " threads"},
      {"instruction set", plan.isa},
      {"flags", flags_of(plan)},
      {"mathematics", plan.math_digest.substr(0, 8)},
      {"kernels", plan.facts_digest},
  };
  for (const SourceDigest& source : plan.sources) {
    rows.push_back({source.path, source.sha256.substr(0, 8)});
  }
  const auto count = [](int64_t number) { return static_cast<double>(number); };
  rows.push_back({"batch", format_count(program.batch), {{"rows", count(program.batch)}}});
  rows.push_back({"row block", format_count(program.norm_rows), {{"rows", count(program.norm_rows)}}});
  rows.push_back({"deterministic", program.deterministic ? "yes" : "no"});
  for (const Reason& reason : plan.why) {
    if (reason.key != Reason::Key::kPipeline) {  // every plan has the row below
      rows.push_back({key_text(reason), value_text(reason)});
    }
    if (reason.head_state) {
      rows.push_back({"logits " + reason.head,
                      logits_text(*reason.head_state),
                      {{"classes", count(reason.head_state->kept)}, {"bytes", count(reason.head_state->logits)}}});
    }
  }
  rows.push_back({"pipeline", to_text(program.pipeline())});
  for (const Stage& stage : program.stages) {
    rows.push_back({"stage " + std::to_string(stage.index),
                    describe_stage(program, stage),
                    {{"layers", count(std::ssize(stage.forward))},
                     {"rows", count(program.micro_batch_rows())},
                     {"forward_seconds", stage.forward_time},
                     {"backward_seconds", stage.backward_time}}});
  }
  const Prediction& predicted = plan.predicted;
  const double idle = predicted.bubble + predicted.imbalance;
  rows.push_back({"step", format_seconds(predicted.step), {{"seconds", predicted.step}}});
  rows.push_back({"samples/s",
                  format_count(std::llround(predicted.images_per_second)),
                  {{"images_per_second", predicted.images_per_second}}});
  rows.push_back({"idle", percent(idle), {{"share", idle}}});
  rows.push_back({"samples", plan.samples > 0 ? format_count(plan.samples) : "", {{"samples", count(plan.samples)}}});
  for (const CommSummary& one : list_communication(plan)) {
    rows.push_back({one.what,
                    format_count(one.count) + " a step, " + format_bytes(one.bytes) + ", " + format_seconds(one.time),
                    {{"count", count(one.count)}, {"bytes", count(one.bytes)}, {"seconds", one.time}}});
  }
  for (const Arena& arena : program.arenas) {
    const std::string device = arena.device == kHost ? "host" : "cpu " + std::to_string(arena.device);
    rows.push_back({device + " memory", format_bytes(arena.bytes), {{"bytes", count(arena.bytes)}}});
  }
  Bytes evaluation = 0;
  for (const Arena& arena : plan.inference.arenas) {
    evaluation += arena.bytes;
  }
  rows.push_back({"eval memory", format_bytes(evaluation), {{"bytes", count(evaluation)}}});
  return rows;
}

std::vector<PlanChange> diff_plans(const Plan& before, const Plan& after) {
  const std::vector<PlanRow> old_rows = plan_rows(before);
  const std::vector<PlanRow> new_rows = plan_rows(after);
  const auto row_in = [](const std::vector<PlanRow>& rows, const std::string& name) {
    const auto at = std::ranges::find(rows, name, &PlanRow::name);
    return at == rows.end() ? PlanRow{.name = name} : *at;
  };
  std::vector<PlanChange> changes;
  for (const PlanRow& row : new_rows) {
    if (const PlanRow old = row_in(old_rows, row.name); old.value != row.value) {
      changes.push_back({old, row});
    }
  }
  for (const PlanRow& row : old_rows) {
    if (!row.value.empty() && std::ranges::find(new_rows, row.name, &PlanRow::name) == new_rows.end()) {
      changes.push_back({row, {.name = row.name}});
    }
  }
  return changes;
}

std::string report_diff(const Plan& before, const Plan& after) {
  const std::vector<PlanChange> changes = diff_plans(before, after);
  if (changes.empty()) {
    return printable_line(after.model + ": nothing differs, both are plan " + after.id) + "\n";
  }
  TextTable table({Align::kLeft, Align::kLeft, Align::kLeft});
  table.add({"", "before", "after"});
  for (const PlanChange& change : changes) {
    const auto shown = [](const PlanRow& row) { return row.value.empty() ? "-" : row.value; };
    table.add({change.before.name, shown(change.before), shown(change.after)});
  }
  return table.text("  ");
}

std::string diff_json(const Plan& before, const Plan& after) {
  const auto side = [](const PlanRow& row) {
    Json json = row.value.empty() ? Json() : Json{{"text", row.value}};
    for (const auto& [key, number] : row.value.empty() ? decltype(row.numbers)() : row.numbers) {
      const bool whole = std::abs(number) < 1e15 && number == std::floor(number);
      json[key] = whole ? Json(static_cast<int64_t>(number)) : Json(number);
    }
    return json;
  };
  Json changed = Json::array();
  for (const PlanChange& change : diff_plans(before, after)) {
    changed.push_back({{"row", change.before.name}, {"before", side(change.before)}, {"after", side(change.after)}});
  }
  return document_text({{"v", kReportVersion},
                        {"model", after.model},
                        {"before", before.id},
                        {"after", after.id},
                        {"changed", std::move(changed)}});
}

std::vector<std::string> why_keys(const Plan& plan) {
  std::vector<std::string> keys;
  std::ranges::transform(plan.why, std::back_inserter(keys), key_text);
  return keys;
}

std::string report_why(const Plan& plan, std::string_view key) {
  const Why why = explain_key(plan, key);
  if (why.reasons.empty()) {
    return "";
  }
  TextTable reasons({Align::kLeft, Align::kLeft, Align::kLeft});
  for (const Reason* reason : why.reasons) {
    reasons.add({reason == why.reasons.front() ? "why  " : "", choice_text(*reason), reason_text(*reason)});
  }
  TextTable others({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kLeft});
  for (const Alternative* other : why.others) {
    others.add({other == why.others.front() ? "also " : "", settings_text(*other), format_seconds(other->step),
                format_bytes(other->memory), note_text(*other)});
  }
  return reasons.text("  ") +
         (why.others.empty() ? "  also   no plan with another value was compared\n" : others.text("  ")) +
         (plan.layer_times ? "  times  " + layer_times_text(plan) + "\n" : "");
}

std::string why_json(const Plan& plan, std::string_view key) {
  const Why why = explain_key(plan, key);
  Json reasons = Json::array();
  for (const Reason* reason : why.reasons) {
    reasons.push_back(json_of(*reason));
  }
  Json others = Json::array();
  for (const Alternative* other : why.others) {
    others.push_back(json_of(*other));
  }
  Json document{
      {"v", kReportVersion}, {"plan", plan.id}, {"why", std::move(reasons)}, {"alternatives", std::move(others)}};
  add_layer_times(plan, document);
  return document_text(document);
}

}  // namespace xrun::planner
