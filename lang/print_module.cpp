// Tests: tests/lang/check_test.cpp, tests/lang/lower/lower_schedule_test.cpp
#include "lang/print_module.h"

#include <fmt/format.h>

#include "graph/base/units.h"
#include "lang/lower/setting_def.h"
#include "lang/lower/setting_text.h"

namespace xrun::lang {
namespace {

// The output, with one setting per line: "  batch = 512".
class Lines {
 public:
  void open(std::string_view kind, std::string_view name) {
    out_ += fmt::format("{}{}{} {{\n", kind, name.empty() ? "" : " ", name);
  }
  void close() { out_ += "}\n"; }
  void set(std::string_view key, std::string_view value) { out_ += fmt::format("  {} = {}\n", key, value); }
  void line(const std::string& text) { out_ += "  " + text + "\n"; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

void print_model(const Module& module, Lines& lines) {
  const Graph& graph = module.graph;
  lines.open("model", module.model);
  for (const NamedValue& input : graph.inputs) {
    lines.line(fmt::format("input {}: {}", input.name, to_text(graph.value(input.value).type)));
  }
  for (const NamedValue& output : graph.outputs) {
    lines.line(fmt::format("output {}: {}", output.name, to_text(graph.value(output.value).type)));
  }
  for (const Head& head : graph.heads) {
    const Node& node = graph.node(head.node);
    lines.line(fmt::format("head {} = {}: {}", head.name, node.op->name, to_text(graph.value(node.outputs[0]).type)));
  }
  lines.set("nodes", std::to_string(graph.nodes.size()));
  lines.set("tensors", std::to_string(graph.params.size()));
  lines.set("parameters", format_with_underscores(graph.parameter_count()));
  lines.close();
}

std::string metric_text(const MetricSpec& metric) {
  return fmt::format("metric {} on {}", metric.name, metric.source.empty() ? "every other source" : metric.source);
}

// Prints the settings of a declaration in the order of their records. Settings of groups are printed as paths:
// "groups.id.lr = 0.5".
void print_settings(DeclKind kind, const Shown& shown, Lines& lines) {
  for (const SettingDef& def : all_settings()) {
    if (def.kind != kind || def.group == "groups PATH" || def.group == "shard HEAD") {
      continue;
    }
    if (const std::string text = def.text(shown); !text.empty()) {
      lines.set(def.path(), text);
    }
    if (kind == DeclKind::kTrain && def.key == "groups") {
      for (const auto& [path, text] : group_settings(shown.module)) {
        lines.set(path, text);
      }
    }
    if (kind == DeclKind::kSchedule && def.key == "HEAD") {
      for (const ShardHint& shard : shown.module.schedule.shards) {
        for (const SettingDef& inner : all_settings()) {
          const std::string text =
              inner.group == "shard HEAD" ? inner.text({shown.module, shown.run, nullptr, &shard}) : "";
          if (!text.empty()) {
            lines.set(fmt::format("shard.{}.{}", shard.head, inner.key), text);
          }
        }
      }
    }
  }
}

void print_data(const Shown& shown, Lines& lines) {
  const DataSpec& data = shown.module.data;
  lines.open("data", data.name);
  for (const SourceSpec& source : data.sources) {
    lines.line(fmt::format("source {} = {}", source.name, call_text(source.reader)));
  }
  for (const DataBinding& binding : data.bindings) {
    std::string text = binding.field;
    for (const CallSpec& stage : binding.stages) {
      text += " -> " + call_text(stage);
    }
    lines.set(binding.target, text);
  }
  print_settings(DeclKind::kData, shown, lines);
  lines.close();
}

void print_train(const Shown& shown, Lines& lines) {
  const TrainSpec& train = shown.module.train;
  lines.open("train", train.name);
  print_settings(DeclKind::kTrain, shown, lines);
  for (const MetricSpec& metric : train.metrics) {
    lines.line(metric_text(metric));
  }
  for (const MetricSpec& metric : train.eval) {
    lines.line("eval " + metric_text(metric));
  }
  lines.close();
}

void print_schedule(const Shown& shown, Lines& lines) {
  lines.open("schedule", shown.module.schedule.name);
  print_settings(DeclKind::kSchedule, shown, lines);
  for (const PinHint& pin : shown.module.schedule.pins) {
    lines.set("pin." + pin.path, fmt::format("stage({})", pin.stage));
  }
  lines.close();
}

}  // namespace

std::string print_module(const Module& module, const RunSpec& run) {
  Lines lines;
  if (!module.model.empty()) {
    print_model(module, lines);
  }
  const Shown shown{module, run};
  if (module.has_data) {
    print_data(shown, lines);
  }
  if (module.has_train) {
    print_train(shown, lines);
  }
  lines.open("cluster", module.cluster.name);
  print_settings(DeclKind::kCluster, shown, lines);
  lines.close();
  print_schedule(shown, lines);
  std::string out = lines.take();
  for (const Diagnostic& later : module.not_yet) {
    out += "not yet: " + later.message + "\n";
  }
  return out + "math " + module.math_digest + "\n";
}

std::vector<std::pair<std::string, std::string>> group_settings(const Module& module) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const GroupSpec& group : module.train.groups) {
    for (const SettingDef& def : all_settings()) {
      const std::string text = def.group == "groups PATH" ? def.text({module, {}, &group}) : "";
      if (!text.empty()) {
        settings.emplace_back(fmt::format("groups.{}.{}", group.path, def.key), text);
      }
    }
  }
  return settings;
}

std::string setting_text(const Module& module, const std::string& path) {
  if (path == "train.epochs" || path == "train.steps") {
    return to_text(module.train.duration);
  }
  const std::string_view key = std::string_view(path).substr(std::min(path.find('.') + 1, path.size()));
  const SettingDef* def = path.starts_with("train.") ? find_setting(DeclKind::kTrain, {}, key) : nullptr;
  return def == nullptr ? "" : def->text({module, {}});
}

}  // namespace xrun::lang
