#include "lang/lower/settings.h"

#include <algorithm>

#include "lang/faults.h"

namespace xrun::lang {
namespace {

constexpr DeclKind kData = DeclKind::kData;
constexpr DeclKind kTrain = DeclKind::kTrain;
constexpr DeclKind kCluster = DeclKind::kCluster;
constexpr DeclKind kSchedule = DeclKind::kSchedule;
constexpr DeclKind kRun = DeclKind::kRun;

constexpr SettingInfo kSettings[] = {
    {kData, "max_bad", "share", "0.1%", "the share of broken samples at which the run ends"},
    {kData, "*", "field -> stages", "the field of its own name", "what an input of the model or a label is made of"},

    {kTrain, "batch", "int", "required", "samples of a step over all devices"},
    {kTrain, "epochs", "number", "required, or `steps`", "how often the training samples are seen"},
    {kTrain, "steps", "int", "required, or `epochs`", "how many updates are made"},
    {kTrain, "loss", "expr", "required", "one value a sample; the run minimises their mean"},
    {kTrain, "metrics", "list", "[]",
     "measured in training and, without `eval`, on all other sources after each epoch"},
    {kTrain, "optimizer", "sgd adam adamw lars lamb", "required", "how gradients become updates"},
    {kTrain, "lr", "number, curve, list of curves", "required", "the rate"},
    {kTrain, "precision", "f32, mixed(bf16 or f16)", "f32, on GPUs mixed(bf16)", "in what operands are rounded"},
    {kTrain, "groups", "{ PATH { lr, weight_decay } }", "{}", "factors of the rate and decay by tensor prefix"},
    {kTrain, "seed", "int", "1", "keys every random number"},
    {kTrain, "deterministic", "bool", "false", "the same bits for every plan"},
    {kTrain, "eval", "{ every, NAME = metric(...) }", "`metrics`, after each epoch",
     "measured on other sources while training"},
    {kTrain, "log", "{ every, tensorboard, prometheus }", "10 steps", "how often progress is reported"},
    {kTrain, "grad_accumulation", "int", "1", "steps whose gradients are added before an update"},
    {kTrain, "clip", "none, norm(x, heads=false), value(x)", "none", "bounds gradients"},
    {kTrain, "norm_rows", "int, global", "64, or the batch where that is less",
     "samples that batch norm takes together"},
    {kTrain, "compress", "none, topk(p, per_layer, on)", "none", "sends only the largest gradients"},
    {kTrain, "active_classes", "all, sample(p), knn(...)", "all", "which classes take part in the softmax"},
    {kTrain, "reduce", "mean, sum", "mean", "how the losses of a batch become one"},
    {kTrain, "freeze", "list of paths", "[]", "tensors that are not trained"},
    {kTrain, "init", "seed, checkpoint(\"...\")", "seed", "the first weights"},
    {kTrain, "order", "shuffled, sequential", "shuffled", "the order of the samples of an epoch"},
    {kTrain, "stop_when", "metric test", "none", "ends the run early"},
    {kTrain, "checkpoint", "{ every, keep, dir, async }", "1 epoch, 3", "when the run is saved"},
    {kTrain, "ema", "float", "none", "a running mean of the weights"},

    {kCluster, "nodes", "int", "1", "machines"},
    {kCluster, "network", "ethernet(rate, latency), infiniband(...)", "none", "what joins the machines"},
    {kCluster, "node", "{ gpu, gpus, link, cpu, cores, memory, storage }", "detected", "one machine"},
    {kCluster, "reserve", "size", "chosen by the planner", "memory that is left alone"},

    {kSchedule, "stages", "auto, int", "auto", "parts of the pipeline"},
    {kSchedule, "micro_batches", "auto, int", "auto", "equal pieces of the global batch"},
    {kSchedule, "pipeline", "auto, gpipe, one_f_one_b", "auto", "the order of forward and backward passes"},
    {kSchedule, "replicas", "auto, int", "auto", "copies of the pipeline"},
    {kSchedule, "recompute", "auto, none, all, list of paths", "auto", "what is computed again instead of kept"},
    {kSchedule, "overlap", "auto, bool", "auto", "communication beside computation"},
    {kSchedule, "bucket", "size", "25MiB", "gradients that are reduced together"},
    {kSchedule, "shard", "HEAD { over, split, chunks, granularity }", "auto", "how a head is split"},
    {kSchedule, "pin", "{ PATH = stage(k) }", "{}", "which stage a part lies in"},
    {kSchedule, "memory_limit", "size", "what the device has", "per device"},
    {kSchedule, "search", "{ time, seed }", "auto", "how long the planner may look"},

    {kRun, "model", "NAME", "the only one", ""},
    {kRun, "data", "NAME", "the only one", ""},
    {kRun, "train", "NAME", "the only one", ""},
    {kRun, "cluster", "NAME", "the only one", ""},
    {kRun, "schedule", "NAME", "the only one", ""},
};

// The child called `key`, made where there is none.
SettingNode& child_of(SettingNode& node, std::string_view key, Span key_span, Span span) {
  for (SettingNode& child : node.children) {
    if (child.key == key) {
      return child;
    }
  }
  node.children.push_back({.key = std::string(key), .key_span = key_span, .span = span});
  return node.children.back();
}

void report_twice(const SettingNode& before, const SettingNode& again, Diagnostics& diagnostics) {
  Diagnostic d =
      fault("XG0211", again.key_span, "`" + again.key + "` is set twice", "set again", {"leave one of both out"});
  d.secondary.push_back({before.key_span, "set here first"});
  diagnostics.add(std::move(d));
}

void read_group(const Ast& ast, Run<Setting> run, SettingNode& into, std::vector<SettingNode>* sources,
                Diagnostics& diagnostics) {
  constexpr size_t kMostSettings = 1024;
  for (const Setting& setting : ast[run]) {
    if (setting.kind == SettingKind::kError) {
      continue;
    }
    if (into.children.size() >= kMostSettings || (sources != nullptr && sources->size() >= kMostSettings)) {
      diagnostics.add(fault("XG0216", setting.span,
                            "a group holds at most " + std::to_string(kMostSettings) + " settings", "one too many",
                            {"leave some out: one for a prefix holds for all that lies below it"}));
      return;
    }
    if (setting.kind == SettingKind::kSource) {
      SettingNode node{.key = std::string(setting.name.text),
                       .key_span = setting.name.span,
                       .span = setting.span,
                       .ast = &ast,
                       .value = setting.value};
      if (sources == nullptr) {
        diagnostics.add(fault("XG0210", setting.span, "a source is declared in `data`, not here",
                              "not a setting of this group", {"move the line to `data`"}));
        continue;
      }
      const auto before =
          std::find_if(sources->begin(), sources->end(), [&](const auto& s) { return s.key == node.key; });
      if (before != sources->end()) {
        report_twice(*before, node, diagnostics);
      } else {
        sources->push_back(std::move(node));
      }
      continue;
    }
    SettingNode* node = &into;
    const auto path = ast[setting.path];
    const SettingNode* closed = nullptr;  // what the path leads through has a value: nobody would read what lies below
    for (const Name& part : path) {
      closed = node->has_value() ? node : closed;
      node = closed != nullptr ? node : &child_of(*node, part.text, part.span, setting.span);
    }
    if (closed != nullptr) {
      report_twice(*closed, {.key = closed->key, .key_span = path.front().span}, diagnostics);
      continue;
    }
    if (setting.kind == SettingKind::kGroup) {
      if (setting.name && !node->has_value()) {
        node = &child_of(*node, setting.name.text, setting.name.span, setting.span);
      }
      if (node->has_value()) {
        report_twice(*node, {.key = node->key, .key_span = path.back().span}, diagnostics);
        continue;
      }
      read_group(ast, setting.settings, *node, nullptr, diagnostics);
      continue;
    }
    if (node->has_value() || !node->children.empty()) {
      report_twice(*node, {.key = node->key, .key_span = path.back().span}, diagnostics);
      continue;
    }
    node->ast = &ast;
    node->value = setting.value;
    node->span = setting.span;
  }
}

}  // namespace

std::span<const SettingInfo> all_settings() { return kSettings; }

bool is_setting(DeclKind kind, std::string_view key) {
  return std::any_of(std::begin(kSettings), std::end(kSettings),
                     [&](const SettingInfo& info) { return info.kind == kind && info.key == key; });
}

const SettingNode* SettingNode::find(std::string_view name) const {
  for (const SettingNode& child : children) {
    if (child.key == name) {
      return &child;
    }
  }
  return nullptr;
}

Settings read_settings(const SourceFile& file, const Decl& decl, Diagnostics& diagnostics) {
  Settings settings;
  settings.root.key = std::string(keyword_of(decl.kind));
  settings.root.key_span = decl.keyword;
  settings.root.span = decl.span;
  read_group(file.ast, decl.settings, settings.root, decl.kind == kData ? &settings.sources : nullptr, diagnostics);
  const auto written = file.ast[decl.settings];
  settings.has_error = decl.has_fault || std::any_of(written.begin(), written.end(), [](const Setting& setting) {
                         return setting.kind == SettingKind::kError;
                       });
  return settings;
}

void override_setting(Settings& settings, std::string_view path, const Ast& ast, ExprId value,
                      Diagnostics& diagnostics) {
  const Span at = ast[value].span;
  SettingNode* node = &settings.root;
  for (std::string_view rest = path; !rest.empty();) {
    if (node->has_value()) {
      Diagnostic d =
          fault("XG0210", at,
                "`" + node->key + "` has a value, so there is no `" + settings.root.key + "." + std::string(path) + "`",
                "not a setting", {"set `" + node->key + "` as a whole"});
      if (node->span.valid() && node->span != at) {
        d.secondary.push_back({node->span, "the value"});
      }
      diagnostics.add(std::move(d));
      return;
    }
    const size_t dot = rest.find('.');
    node = &child_of(*node, rest.substr(0, dot), at, at);
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  node->key_span = at;
  node->span = at;
  node->ast = &ast;
  node->value = value;
  node->children.clear();
}

std::string path_text(const Ast& ast, ExprId id) {
  if (!id.valid()) {
    return {};
  }
  const Expr& expr = ast[id];
  if (expr.kind == ExprKind::kName) {
    return std::string(expr.name.text);
  }
  if (expr.kind == ExprKind::kString) {
    return ast.text(id);
  }
  if (expr.kind == ExprKind::kField) {
    const std::string left = path_text(ast, expr.lhs);
    return left.empty() ? left : left + "." + std::string(expr.name.text);
  }
  return {};
}

}  // namespace xrun::lang
