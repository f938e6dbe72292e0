// `cluster` and `schedule`: the machine and the hints. Neither may change what is learned.
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lang/lower/module_builder.h"
#include "lang/nearest.h"

namespace xrun::lang {
namespace {

constexpr int64_t kMany = 1 << 20;
constexpr int64_t kMostCores = 1024;  // as many as --devices takes
constexpr const char* kCpuNode =
    "leave it out: this edition computes on processors, which `cores` and `memory` describe";

Span value_span(const SettingNode& node) { return node.has_value() ? (*node.ast)[node.value].span : node.key_span; }

}  // namespace

void ModuleBuilder::lower_cluster(const DeclRef& decl) {
  Settings settings = settings_of(decl, DeclKind::kCluster);
  Scope scope = constants(decl);
  ClusterSpec& cluster = module_.cluster;
  cluster.name = decl ? std::string(decl.decl->name.text) : "";
  cluster.span = settings.root.span;
  for (const SettingNode& node : settings.root.children) {
    if (node.key == "nodes") {
      cluster.nodes = whole(node, scope, 1, kMany).value_or(1);
      if (cluster.nodes > 1) {
        ev_.not_yet(node.key_span, "a cluster of several nodes", {"leave `nodes` out: this edition uses one machine"});
      }
    } else if (node.key == "network") {
      lower_network(node, scope);
    } else if (node.key == "node") {
      lower_node(node, scope);
    } else if (node.key == "reserve") {
      cluster.reserve = size(node, scope, 0).value_or(-1);
    } else {
      unknown_setting(node, DeclKind::kCluster, "cluster", {});
    }
  }
}

void ModuleBuilder::lower_network(const SettingNode& node, Scope& scope) {
  if (!one_of(node, {"none"}, {"ethernet", "infiniband"}) || symbol(node) == "none") {
    return;
  }
  const auto bound = arguments(node, word(node), "(rate: quantity, latency: quantity = none)", scope);
  if (!bound) {
    return;
  }
  ev_.not_yet(node.key_span, "`cluster.network`", {"leave `network` out: this edition uses one machine"});
  quantity((*bound)[0].value(), word(node), (*bound)[0].value().span, Dimension::kRate);
  if ((*bound)[1].value().kind != DatumKind::kNone) {
    quantity((*bound)[1].value(), "latency", (*bound)[1].value().span, Dimension::kTime);
  }
}

void ModuleBuilder::lower_node(const SettingNode& node, Scope& scope) {
  ClusterSpec& cluster = module_.cluster;
  if (node.has_value()) {
    refuse_value(node, {.title = "write", .lines = {"node {", "  cores  = 2", "  memory = 16GiB", "}"}});
    return;
  }
  for (const SettingNode& child : node.children) {
    if (child.key == "cpu") {
      const std::string name = symbol(child);
      cluster.cpu = name.empty() ? text(child, scope).value_or("") : name;
    } else if (child.key == "cores") {
      cluster.cores = whole(child, scope, 1, kMostCores).value_or(0);
    } else if (child.key == "memory") {
      cluster.memory = size(child, scope, 1).value_or(0);
    } else if (child.key == "storage") {
      if (quantity(child, scope, Dimension::kRate)) {
        ev_.not_yet(child.key_span, "`node.storage`", {"leave `storage` out"});
      }
    } else if (child.key == "gpus") {
      if (whole(child, scope, 0, kMany).value_or(0) > 0) {
        ev_.not_yet(child.key_span, "a `gpu` in a cluster", {kCpuNode});
      }
    } else if (child.key == "gpu") {
      ev_.not_yet(child.key_span, "a `gpu` in a cluster", {kCpuNode});
    } else if (child.key == "link") {
      if (one_of(child, {}, {"nvlink", "pcie"})) {
        if (const auto bound = arguments(child, word(child), "(rate: quantity)", scope)) {
          quantity((*bound)[0].value(), word(child), (*bound)[0].value().span, Dimension::kRate);
          ev_.not_yet(child.key_span, "`node.link`", {"leave `link` out"});
        }
      }
    } else {
      unknown_setting(child, DeclKind::kError, "node", {"gpu", "gpus", "link", "cpu", "cores", "memory", "storage"});
    }
  }
}

void ModuleBuilder::lower_schedule(const DeclRef& decl) {
  Settings settings = settings_of(decl, DeclKind::kSchedule);
  Scope scope = constants(decl);
  ScheduleSpec& schedule = module_.schedule;
  schedule.name = decl ? std::string(decl.decl->name.text) : "";
  schedule.span = settings.root.span;
  const auto count = [&](const SettingNode& node, std::optional<Hint<int64_t>>& hint) {
    if (is_auto(node)) {
      return;
    }
    if (const auto number = whole(node, scope, 1, kMany)) {
      hint = Hint<int64_t>{*number, value_span(node)};
    }
  };
  for (const SettingNode& node : settings.root.children) {
    if (node.key == "stages") {
      count(node, schedule.stages);
    } else if (node.key == "micro_batches") {
      count(node, schedule.micro_batches);
    } else if (node.key == "replicas") {
      count(node, schedule.replicas);
    } else if (node.key == "pipeline") {
      if (one_of(node, {"auto", "gpipe", "one_f_one_b"}) && !is_auto(node)) {
        schedule.pipeline = Hint<PipelineKind>{symbol(node) == "gpipe" ? PipelineKind::kGpipe : PipelineKind::kOneFOneB,
                                               value_span(node)};
      }
    } else if (node.key == "recompute") {
      lower_recompute(node);
    } else if (node.key == "overlap") {
      if (!is_auto(node)) {
        if (const auto on = flag(node, scope)) {
          schedule.overlap = Hint<bool>{*on, value_span(node)};
        }
      }
    } else if (node.key == "bucket") {
      if (size(node, scope, 1)) {
        ev_.not_yet(node.key_span, "`schedule.bucket`", {"leave `bucket` out"});
      }
    } else if (node.key == "memory_limit") {
      if (const auto bytes = size(node, scope, 1)) {
        schedule.memory_limit = Hint<Bytes>{*bytes, value_span(node)};
      }
    } else if (node.key == "search") {
      lower_search(node, scope);
    } else if (node.key == "shard") {
      for (const SettingNode& head : node.children) {
        lower_shard(head, scope);
      }
      if (node.has_value()) {
        refuse_value(node, {.title = "write a group for each head", .lines = {"shard HEAD {", "  over = 2", "}"}});
      }
    } else if (node.key == "pin") {
      for (const SettingNode& child : node.children) {
        lower_pins(child, child.key, scope);
      }
      if (node.has_value()) {
        refuse_value(node, {.title = "write", .lines = {"pin {", "  PATH = stage(0)", "}"}});
      }
    } else {
      unknown_setting(node, DeclKind::kSchedule, "schedule", {});
    }
  }
}

void ModuleBuilder::lower_search(const SettingNode& node, Scope& scope) {
  for (const SettingNode& child : node.children) {
    if (child.key != "time" && child.key != "seed") {
      unknown_setting(child, DeclKind::kError, "search", {"time", "seed"});
      continue;
    }
    const bool given = child.key == "time" ? quantity(child, scope, Dimension::kTime).has_value()
                                           : whole(child, scope, 0, INT64_MAX).has_value();
    if (given) {
      ev_.not_yet(child.key_span, fmt::format("`search.{}`", child.key), {fmt::format("leave `{}` out", child.key)});
    }
  }
  if (node.has_value() && !is_auto(node)) {
    refuse_value(node, {.title = "write search = auto, or leave it out"});
  }
}

void ModuleBuilder::lower_recompute(const SettingNode& node) {
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

void ModuleBuilder::lower_shard(const SettingNode& node, Scope& scope) {
  if (node.has_value()) {
    refuse_value(node, {.title = "write a group for each head", .lines = {"shard HEAD {", "  over = 2", "}"}});
    return;
  }
  ShardHint hint{.head = node.key, .shards = 0, .granularity = "auto", .span = node.span};
  const auto& heads = ev_.graph().heads;
  // Without a model, as in a file of machines, there is nothing to compare with.
  if (choice_.model &&
      std::none_of(heads.begin(), heads.end(), [&](const Head& head) { return head.name == node.key; })) {
    std::vector<std::string> names;
    for (const Head& head : heads) {
      names.push_back(head.name);
    }
    Fix fix = did_you_mean(node.key, names, node.key_span,
                           {names.empty() ? "leave it out: the model has no heads"
                                          : fmt::format("name one of {}", fmt::join(names, ", "))});
    if (ev_.sources().text(node.key_span) != node.key) {
      fix.edits.clear();  // a flag: its text is the value alone
    }
    ev_.refuse("XG0217", node.key_span, fmt::format("the model has no head `{}`", node.key), "a hint for nothing",
               std::move(fix));
  }
  for (const SettingNode& child : node.children) {
    if (child.key == "over") {
      const std::string name = word(child);
      if (name == "nodes" || name == "all" || name == "auto") {
        one_of(child, {"nodes", "all", "auto"});
        hint.shards = name == "nodes" ? std::max<int64_t>(1, module_.cluster.nodes) : 0;
      } else {
        hint.shards = whole(child, scope, 1, kMany).value_or(0);
      }
    } else if (child.key == "split") {
      one_of(child, {"classes"});
    } else if (child.key == "chunks") {
      if (!is_auto(child) && whole(child, scope, 1, kMany)) {
        ev_.not_yet(child.key_span, "`shard.chunks`", {"leave `chunks` out: tiles are as large as the cache"});
      }
    } else if (child.key == "granularity") {
      if (one_of(child, {"auto", "micro_batch", "step"})) {
        hint.granularity = symbol(child);
      }
    } else {
      unknown_setting(child, DeclKind::kError, "shard", {"over", "split", "chunks", "granularity"});
    }
  }
  module_.schedule.shards.push_back(std::move(hint));
}

void ModuleBuilder::lower_pins(const SettingNode& node, const std::string& path, Scope& scope) {
  for (const SettingNode& child : node.children) {
    lower_pins(child, path + "." + child.key, scope);
  }
  if (!node.has_value()) {
    return;
  }
  if (!names_a_part(path)) {
    refuse_path(node.key_span, path);
  }
  if (!one_of(node, {}, {"stage"})) {
    return;
  }
  const auto bound = arguments(node, "stage", "(k: int)", scope);
  if (!bound) {
    return;
  }
  const int64_t stage = to_int64((*bound)[0].value()).value_or(-1);
  if (stage < 0) {
    ev_.refuse("XG0214", (*bound)[0].span, fmt::format("there is no stage {}", stage), "",
               {"stages are counted from 0: write stage(0) for the first"});
    return;
  }
  module_.schedule.pins.push_back({path, stage, node.span});
}

}  // namespace xrun::lang
