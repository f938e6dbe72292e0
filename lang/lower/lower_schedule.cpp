// Lowers `cluster` (the machine) and `schedule` (hints). Neither may change the math digest.
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/settings/gpu_def.h"
#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// The latency of a message between two processes on different nodes, if the text does not give it.
constexpr Seconds kEthernetLatency = 50e-6;
constexpr Seconds kInfinibandLatency = 3e-6;

constexpr double kLeastRate = 125;  // 1 kbit/s
constexpr double kMostRate = 1e15;
constexpr Seconds kMostLatency = 10;

}  // namespace

void ModuleBuilder::lower_cluster(const DeclRef& decl) {
  Settings settings = settings_of(decl, DeclKind::kCluster);
  Scope scope = constants(decl);
  ClusterSpec& cluster = module_.cluster;
  cluster.name = decl ? std::string(decl.decl->name.text) : "";
  cluster.span = settings.root.span;
  lower_settings(settings.root, DeclKind::kCluster, {}, scope);
  const SettingNode* node = settings.root.find("node");
  const SettingNode* gpus = node != nullptr ? node->find("gpus") : nullptr;
  const SettingNode* kind = node != nullptr ? node->find("gpu") : nullptr;
  const GpuDef* gpu = find_gpu(cluster.gpu);
  cluster.gpu = gpu != nullptr ? gpu->name : "";
  if (run_.figures.device) {
    if (gpu != nullptr) {
      ev_.refuse("XG0513", kind != nullptr ? kind->span : cluster.span,
                 {"`gpu = {}` and `device` both say what the devices of a node are", gpu->name}, "",
                 {"leave one of them out"});
    }
    cluster.gpu = kStatedDevice;
  } else if (gpu == nullptr && cluster.gpus > 1 && (kind == nullptr || word(*kind) == "none")) {  // others are reported
    ev_.refuse("XG0513", gpus != nullptr ? gpus->span : cluster.span,
               {"`gpus` without `gpu`: the kind of the GPUs is missing"}, "a plan depends on their memory and speed",
               {"say which they are: gpu = h100"});
  }
  if (run_.figures.calibration && !cluster.gpu.empty()) {
    ev_.refuse("XG0513", node->find("calibration")->key_span,
               {"`calibration` is about processors, but the devices are {} GPUs", cluster.gpu}, "",
               {"leave it out, or leave out the GPUs"});
  }
  const SettingNode* network = settings.root.find("network");
  if (cluster.nodes > 1 && !cluster.network.known() && (network == nullptr || word(*network) == "none")) {
    const SettingNode* nodes = settings.root.find("nodes");
    ev_.refuse("XG0512", nodes != nullptr ? value_span(*nodes) : cluster.span,
               {"the cluster has {} nodes, but no `network` that joins them", cluster.nodes},
               "a plan depends on how fast it is", {"say what joins them: network = ethernet(10Gbit/s)"});
  }
}

void ModuleBuilder::lower_cpu(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const std::string name = symbol(node);
  module_.cluster.cpu = name.empty() ? text(node, scope, def).value_or("") : name;
}

void ModuleBuilder::lower_network(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto choice = choose(node, def);
  if (!choice || choice->word == def.fallback) {
    return;
  }
  const auto bound = arguments(node, *choice, scope);
  if (!bound) {
    return;
  }
  NetworkSpec network{.name = std::string(choice->word),
                      .latency = choice->word == "ethernet" ? kEthernetLatency : kInfinibandLatency};
  for (const BoundArg& arg : *bound) {
    const Datum& value = arg.value();
    const Span at = value.span.valid() ? value.span : arg.span;
    const std::string_view param = arg.param->name.text;
    if (value.kind == DatumKind::kNone) {
      continue;
    }
    const bool is_rate = param == "rate";
    const auto given =
        quantity(value, is_rate ? choice->word : param, at, is_rate ? Dimension::kRate : Dimension::kTime);
    if (!given) {
      return;
    }
    if (is_rate ? !(*given >= kLeastRate && *given <= kMostRate) : *given > kMostLatency) {
      ev_.refuse("XG0214", at, {"`{}` of a network cannot be {}", param, to_text(value)}, "",
                 {is_rate ? "write 125B/s or more, such as 10Gbit/s" : "write at most 10s, such as 50us"});
      return;
    }
    (is_rate ? network.rate : network.latency) = *given;
  }
  module_.cluster.network = std::move(network);
}

void ModuleBuilder::lower_schedule(const DeclRef& decl) {
  Settings settings = settings_of(decl, DeclKind::kSchedule);
  Scope scope = constants(decl);
  ScheduleSpec& schedule = module_.schedule;
  schedule.name = decl ? std::string(decl.decl->name.text) : "";
  schedule.span = settings.root.span;
  lower_settings(settings.root, DeclKind::kSchedule, {}, scope);
}

void ModuleBuilder::lower_recompute(const SettingNode& node, Scope&, const SettingDef&) {
  const std::string name = symbol(node);
  if (name == "auto") {
    return;
  }
  Hint<RecomputeHint> hint{.value = {}, .span = value_span(node)};
  if (name == "none" || name == "all") {
    hint.value.mode = name == "all" ? RecomputeHint::kAll : RecomputeHint::kNone;
  } else {
    hint.value.mode = RecomputeHint::kPaths;
    hint.value.paths = paths(node);
  }
  module_.schedule.recompute = std::move(hint);
}

void ModuleBuilder::lower_shard(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (node.has_value()) {
    refuse_value(node, def);
    return;
  }
  const auto& heads = ev_.graph().heads;
  // A file without a model, such as a file of clusters, has no heads with which a name could be compared.
  if (choice_.model &&
      std::none_of(heads.begin(), heads.end(), [&](const Head& head) { return head.name == node.key; })) {
    const std::vector<std::string> names = names_of(heads, &Head::name);
    Fix fix = did_you_mean(node.key, names, node.key_span,
                           {names.empty() ? "leave it out: the model has no heads"
                                          : fmt::format("name one of {}", fmt::join(names, ", "))});
    if (ev_.sources().text(node.key_span) != node.key) {
      fix.edits.clear();  // the key comes from --set, and its span is that of the value
    }
    ev_.refuse("XG0217", node.key_span, {"the model has no head `{}`", node.key}, "no such head", std::move(fix));
  }
  module_.schedule.shards.push_back({.head = node.key, .shards = 0, .granularity = "auto", .span = node.span});
  lower_settings(node, def.kind, "shard HEAD", scope);
}

void ModuleBuilder::lower_over(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const std::string name = word(node);
  const auto choices = choices_of(def);
  int64_t& shards = module_.schedule.shards.back().shards;
  if (std::none_of(choices.begin(), choices.end(), [&](const SettingChoice& one) { return one.word == name; })) {
    shards = whole(node, scope, def).value_or(0);
  } else if (choose(node, def)) {
    module_.schedule.shards.back().by_node = name == "nodes";
    module_.schedule.shards.back().on_all = name == "all";
  }
}

void ModuleBuilder::lower_pin(const SettingNode& node, Scope& scope, const SettingDef& def) {
  lower_pins(node, node.key, scope, def);
}

void ModuleBuilder::lower_pins(const SettingNode& node, const std::string& path, Scope& scope, const SettingDef& pin) {
  for (const SettingNode& child : node.children) {
    lower_pins(child, path + "." + child.key, scope, pin);
  }
  if (!node.has_value()) {
    return;
  }
  if (!names_a_part(path)) {
    refuse_path(node.key_span, path);
  }
  const auto choice = choose(node, pin);
  const auto bound = choice ? arguments(node, *choice, scope) : std::nullopt;
  if (!bound) {
    return;
  }
  const int64_t stage = to_int64((*bound)[0].value()).value_or(-1);
  if (stage < 0) {
    ev_.refuse("XG0214", (*bound)[0].span, {"there is no stage {}", stage}, "",
               {"stages are counted from 0: write stage(0) for the first"});
    return;
  }
  module_.schedule.pins.push_back({path, stage, node.span});
}

}  // namespace xrun::lang
