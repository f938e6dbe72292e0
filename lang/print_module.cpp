#include "lang/print_module.h"

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/group_rules.h"
#include "graph/update_rule.h"
#include "lang/nearest.h"

namespace xrun::lang {
namespace {

std::string call_text(const CallSpec& call) {
  return call.args.all().empty() ? call.name : fmt::format("{}({})", call.name, to_text(call.args));
}

// One setting a line: "  batch = 512".
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

void print_data(const DataSpec& data, Lines& lines) {
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
  lines.set("max_bad", fmt::format("{:g}", data.max_bad));
  lines.close();
}

std::string curve_text(const CurveSpec& curve) {
  std::string text = curve.kind == "constant" ? fmt::format("constant({:g}", curve.from)
                                              : fmt::format("{}({:g} .. {:g}", curve.kind, curve.from, curve.to);
  if (curve.span) {
    text += ", " + to_text(*curve.span);
  }
  if (curve.kind == "poly") {
    text += fmt::format(", power={:g}", curve.power);
  }
  if (curve.kind == "steps") {
    text += fmt::format(", by={:g}, at=[", curve.by);
    text += listed(curve.at, [](const TrainSpan& at) { return to_text(at); }) + "]";
  }
  return text + ")";
}

std::string metric_text(const MetricSpec& metric) {
  return fmt::format("metric {} on {}", metric.name, metric.source.empty() ? "every other source" : metric.source);
}

std::string best_text(const RunSpec& run) {
  return !run.best ? ""
                   : fmt::format(", best {}({}, {})", run.best->highest ? "highest" : "lowest", run.best->metric,
                                 run.best->keep);
}

std::string active_text(const ActiveSpec& active) {
  const std::string log_q = active.log_q ? ", log_q=true" : "";
  const std::string amount =
      active.amount <= 1 ? fmt::format("{:g}%", 100 * active.amount) : fmt::format("{:.0f}", active.amount);
  return active.kind == ActiveSpec::kAll ? "all"
         : active.kind == ActiveSpec::kSample
             ? fmt::format("sample({}{})", amount, log_q)
             : fmt::format("knn(neighbours={}, active={}, rebuild={}, exact={}{}{})", active.neighbours, amount,
                           to_text(active.rebuild), active.exact,
                           active.exact ? "" : fmt::format(", probes={}", active.probes), log_q);
}

std::string batch_text(const TrainSpec& train) {
  if (!train.growth) {
    return std::to_string(train.batch);
  }
  const GrowthSpec& growth = *train.growth;
  return fmt::format("grow({} .. {}, over={}{})", growth.first, train.batch, to_text(growth.over),
                     growth.after.amount > 0 ? ", after=" + to_text(growth.after) : "");
}

std::string compress_text(const CompressSpec& compress) {
  return fmt::format("topk({:g}%{}{})", 100 * compress.density,
                     compress.on.empty() ? "" : fmt::format(", on=[{}]", fmt::join(compress.on, ", ")),
                     compress.warmup ? ", warmup=" + to_text(*compress.warmup) : "");
}

void print_train(const TrainSpec& train, const RunSpec& run, Lines& lines) {
  lines.open("train", train.name);
  lines.set("batch", batch_text(train));
  lines.set("duration", to_text(train.duration));
  lines.set("optimizer", call_text({train.optimizer.name, without_update_rule(train.optimizer.args)}));
  lines.set("lr", fmt::format("[{}]", listed(train.lr, curve_text)));
  lines.set("precision", train.precision == PrecisionMode::kF32 ? "f32" : "mixed(bf16)");
  lines.set("norm_rows", std::to_string(train.norm_rows));
  lines.set("reduce", train.reduce_sum ? "sum" : "mean");
  lines.set("seed", std::to_string(train.seed));
  lines.set("order", name_of(train.order));
  lines.set("class_weights", train.class_weights.kind == ClassWeightsSpec::kNone ? "none"
                             : train.class_weights.kind == ClassWeightsSpec::kCsv
                                 ? fmt::format("csv({})", to_text(AttrValue(train.class_weights.path)))
                                 : "inverse_frequency");
  lines.set("active_classes", active_text(train.active_classes));
  if (train.compress.is_on()) {
    lines.set("compress", compress_text(train.compress));
  }
  lines.set("deterministic", train.deterministic ? "true" : "false");
  lines.set("grad_accumulation", std::to_string(train.grad_accumulation));
  constexpr std::string_view kClips[] = {"none", "norm", "value"};
  lines.set("clip", train.clip.kind == ClipSpec::kNone
                        ? "none"
                        : fmt::format("{}({:g}{})", kClips[train.clip.kind], train.clip.limit,
                                      train.clip.heads ? ", heads=true" : ""));
  if (train.ema > 0) {
    lines.set("ema", fmt::format("{:g}", train.ema));
  }
  lines.set("init",
            train.init_checkpoint.empty()
                ? "seed"
                : fmt::format("checkpoint({}{})", to_text(AttrValue(train.init_checkpoint)),
                              run.init_skip.empty() ? "" : fmt::format(", skip=[{}]", fmt::join(run.init_skip, ", "))));
  for (const auto& [path, value] : group_settings(train)) {
    lines.set(path, value);
  }
  if (!train.freeze.empty()) {
    lines.set("freeze", fmt::format("[{}]", fmt::join(train.freeze, ", ")));
  }
  for (const MetricSpec& metric : train.metrics) {
    lines.line(metric_text(metric));
  }
  for (const MetricSpec& metric : train.eval) {
    lines.line("eval " + metric_text(metric));
  }
  if (train.eval_every) {
    lines.set("eval.every", to_text(*train.eval_every));
  }
  lines.set("log.every", to_text(train.log_every));
  if (train.log_tensorboard) {
    lines.set("log.tensorboard", "true");
  }
  lines.set("checkpoint", fmt::format("every {}, keep {}{}",
                                      run.auto_save ? fmt::format("auto(mtbf={:g}s)", run.auto_save->mtbf)
                                                    : to_text(train.checkpoint_every),
                                      train.checkpoint_keep, best_text(run)));
  if (run.stop_when) {
    lines.set("stop_when", run.stop_when->text);
  }
  lines.close();
}

void print_cluster(const ClusterSpec& cluster, Lines& lines) {
  lines.open("cluster", cluster.name);
  const auto known = [](int64_t value) { return value > 0 ? std::to_string(value) : std::string("detect"); };
  lines.set("nodes", std::to_string(cluster.nodes));
  if (cluster.network.known()) {
    lines.set("network", fmt::format("{}({:g} B/s, latency={:g} s)", cluster.network.name, cluster.network.rate,
                                     cluster.network.latency));
  }
  if (!cluster.cpu.empty()) {
    lines.set("cpu", cluster.cpu);
  }
  lines.set("cores", known(cluster.cores));
  lines.set("memory", cluster.memory > 0 ? format_bytes(cluster.memory) : "detect");
  lines.set("reserve", cluster.reserve >= 0 ? format_bytes(cluster.reserve) : "auto");
  lines.close();
}

template <typename T>
std::string hint_text(const std::optional<Hint<T>>& hint) {
  return hint ? std::to_string(hint->value) : "auto";
}

void print_schedule(const ScheduleSpec& schedule, Lines& lines) {
  lines.open("schedule", schedule.name);
  lines.set("stages", hint_text(schedule.stages));
  lines.set("micro_batches", hint_text(schedule.micro_batches));
  lines.set("replicas", hint_text(schedule.replicas));
  lines.set("pipeline", !schedule.pipeline                                 ? "auto"
                        : schedule.pipeline->value == PipelineKind::kGpipe ? "gpipe"
                                                                           : "one_f_one_b");
  std::string recompute = "auto";
  if (schedule.recompute) {
    const RecomputeHint& hint = schedule.recompute->value;
    recompute = hint.mode == RecomputeHint::kNone  ? "none"
                : hint.mode == RecomputeHint::kAll ? "all"
                                                   : fmt::format("[{}]", fmt::join(hint.paths, ", "));
  }
  lines.set("recompute", recompute);
  lines.set("overlap", schedule.overlap ? (schedule.overlap->value ? "true" : "false") : "auto");
  lines.set("memory_limit", schedule.memory_limit ? format_bytes(schedule.memory_limit->value) : "auto");
  for (const ShardHint& shard : schedule.shards) {
    lines.line(fmt::format("shard {}: over={}, granularity={}", shard.head,
                           shard.by_node      ? "nodes"
                           : shard.shards > 0 ? std::to_string(shard.shards)
                                              : "all",
                           shard.granularity));
  }
  for (const PinHint& pin : schedule.pins) {
    lines.line(fmt::format("pin {} = stage({})", pin.path, pin.stage));
  }
  lines.close();
}

}  // namespace

std::string print_module(const Module& module, const RunSpec& run) {
  Lines lines;
  if (!module.model.empty()) {
    print_model(module, lines);
  }
  if (module.has_data) {
    print_data(module.data, lines);
  }
  if (module.has_train) {
    print_train(module.train, run, lines);
  }
  print_cluster(module.cluster, lines);
  print_schedule(module.schedule, lines);
  std::string out = lines.take();
  for (const Diagnostic& later : module.not_yet) {
    out += "not yet: " + later.message + "\n";
  }
  return out + "math " + module.math_digest + "\n";
}

std::vector<std::pair<std::string, std::string>> group_settings(const TrainSpec& train) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const GroupSpec& group : train.groups) {
    const auto add = [&](std::string_view key, std::string value) {
      settings.emplace_back(fmt::format("groups.{}.{}", group.path, key), std::move(value));
    };
    if (group.lr) {
      add("lr", to_text(AttrValue(*group.lr)));
    }
    if (group.weight_decay) {
      add("weight_decay", to_text(AttrValue(*group.weight_decay)));
    }
    if (group.weights) {
      add("weights", std::string(name_of(*group.weights)));
    }
    if (group.states) {
      add("states", std::string(name_of(*group.states)));
    }
    if (group.untouched) {
      add("untouched", std::string(name_of(*group.untouched)));
    }
    if (group.rows) {
      add("rows", std::string(name_of(*group.rows)));
    }
  }
  return settings;
}

std::string setting_text(const Module& module, const std::string& path) {
  const bool is_length = path == "train.epochs" || path == "train.steps";
  const std::string begin =
      "\n  " + (is_length ? "duration" : path.substr(std::min(path.find('.') + 1, path.size()))) + " = ";
  Lines lines;
  print_train(module.train, {}, lines);
  const std::string text = lines.take();
  const size_t at = path.starts_with("train.") ? text.find(begin) : std::string::npos;
  const size_t from = at + begin.size();
  return at == std::string::npos ? "" : text.substr(from, text.find('\n', from) - from);
}

}  // namespace xrun::lang
