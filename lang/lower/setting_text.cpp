// Tests: tests/lang/explicit_test.cpp, tests/lang/lower/lower_schedule_test.cpp
#include "lang/lower/setting_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "graph/base/units.h"
#include "graph/settings/update_rule.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

std::string quoted(const std::string& text) { return to_text(AttrValue(text)); }

std::string curve_text(const CurveSpec& curve) {
  std::string text = fmt::format("{}({}", curve.kind, number_text(curve.from));
  if (curve.kind != "constant") {
    text += " .. " + number_text(curve.to);
  }
  if (curve.span) {
    text += ", " + to_text(*curve.span);
  }
  if (curve.kind == "poly") {
    text += fmt::format(", power={}", number_text(curve.power));
  }
  if (curve.kind == "steps") {
    text += fmt::format(", by={}, at=[", number_text(curve.by));
    text += listed(curve.at, [](const TrainSpan& at) { return to_text(at); }) + "]";
  }
  return text + ")";
}

}  // namespace

std::string number_text(double number) { return fmt::format("{}", number); }

std::string size_text(Bytes bytes) {
  for (const auto& [unit, name] : {std::pair(Bytes{1} << 40, "TiB"), std::pair(Bytes{1} << 30, "GiB"),
                                   std::pair(Bytes{1} << 20, "MiB"), std::pair(Bytes{1} << 10, "KiB")}) {
    if (bytes >= unit && bytes % unit == 0) {
      return fmt::format("{}{}", bytes / unit, name);
    }
  }
  return fmt::format("{}B", bytes);
}

std::string call_text(const CallSpec& call) {
  return call.args.all().empty() ? call.name : fmt::format("{}({})", call.name, to_text(call.args));
}

std::string paths_text(const std::vector<std::string>& paths) { return fmt::format("[{}]", fmt::join(paths, ", ")); }

std::string show_default(const SettingDef& def, const Shown&) { return std::string(def.fallback); }

std::string show_batch(const SettingDef&, const Shown& shown) {
  const TrainSpec& train = shown.module.train;
  if (!train.growth) {
    return std::to_string(train.batch / train.grad_accumulation);
  }
  const GrowthSpec& growth = *train.growth;
  return fmt::format("grow({} .. {}, over={}{})", growth.first, train.batch, to_text(growth.over),
                     growth.after.amount > 0 ? ", after=" + to_text(growth.after) : "");
}

std::string show_duration(const SettingDef& def, const Shown& shown) {
  const TrainSpan& duration = shown.module.train.duration;
  const bool is_mine = duration.unit == (def.key == "steps" ? TrainSpan::kSteps : TrainSpan::kEpochs);
  return is_mine ? number_text(duration.amount) : "";
}

std::string show_optimizer(const SettingDef&, const Shown& shown) {
  const CallSpec& optimizer = shown.module.train.optimizer;
  return call_text({optimizer.name, without_update_rule(optimizer.args), {}});
}

std::string show_rate(const SettingDef&, const Shown& shown) {
  return fmt::format("[{}]", listed(shown.module.train.lr, curve_text));
}

std::string show_freeze(const SettingDef&, const Shown& shown) { return paths_text(shown.module.train.freeze); }

std::string show_precision(const SettingDef&, const Shown& shown) {
  const TrainSpec& train = shown.module.train;
  switch (train.precision) {
    case PrecisionMode::kMixedBf16:
      return "mixed(bf16)";
    case PrecisionMode::kMixedF16:
      return train.loss_scale.kind == LossScaleSpec::kDynamic
                 ? "mixed(f16, loss_scale=dynamic)"
                 : fmt::format("mixed(f16, loss_scale={:.0f})", train.loss_scale.first);
    case PrecisionMode::kF32:
      break;
  }
  return "f32";
}

std::string show_clip(const SettingDef& def, const Shown& shown) {
  const ClipSpec& clip = shown.module.train.clip;
  return clip.kind == ClipSpec::kNone ? std::string(def.fallback)
                                      : fmt::format("{}({}{})", clip.kind == ClipSpec::kNorm ? "norm" : "value",
                                                    number_text(clip.limit), clip.heads ? ", heads=true" : "");
}

std::string show_init(const SettingDef& def, const Shown& shown) {
  const std::string& path = shown.module.train.init_checkpoint;
  const std::vector<std::string>& skip = shown.run.init_skip;
  return path.empty() ? std::string(def.fallback)
                      : fmt::format("checkpoint({}{})", quoted(path), skip.empty() ? "" : ", skip=" + paths_text(skip));
}

std::string show_class_weights(const SettingDef& def, const Shown& shown) {
  const ClassWeightsSpec& weights = shown.module.train.class_weights;
  return weights.kind == ClassWeightsSpec::kNone  ? std::string(def.fallback)
         : weights.kind == ClassWeightsSpec::kCsv ? fmt::format("csv({})", quoted(weights.path))
                                                  : "inverse_frequency";
}

std::string show_metrics(const SettingDef& def, const Shown& shown) {
  return shown.module.train.metrics.empty() ? std::string(def.fallback) : "";
}

std::string show_eval_every(const SettingDef& def, const Shown& shown) {
  const TrainSpec& train = shown.module.train;
  return train.eval_every ? to_text(*train.eval_every) : train.measured().empty() ? "" : std::string(def.fallback);
}

std::string show_prometheus(const SettingDef& def, const Shown& shown) {
  const std::string& address = shown.module.train.log_prometheus;
  return address.empty() ? std::string(def.fallback) : quoted(address);
}

std::string show_save_every(const SettingDef&, const Shown& shown) {
  return shown.run.auto_save ? fmt::format("auto(mtbf={}s)", number_text(shown.run.auto_save->mtbf))
                             : to_text(shown.module.train.checkpoint_every);
}

std::string show_directory(const SettingDef&, const Shown& shown) {
  const TrainSpec& train = shown.module.train;
  return quoted(train.checkpoint_dir.empty() ? "ckpt/" + train.name : train.checkpoint_dir);
}

// The text is empty if there are no copies, so that texts of modules equal those of versions without the setting.
std::string show_copy(const SettingDef&, const Shown& shown) {
  return shown.run.copy.empty() ? "" : quoted(shown.run.copy);
}

std::string show_best(const SettingDef& def, const Shown& shown) {
  const auto& best = shown.run.best;
  return best ? fmt::format("{}({}, {})", best->highest ? "highest" : "lowest", best->metric, best->keep)
              : std::string(def.fallback);
}

std::string show_active(const SettingDef& def, const Shown& shown) {
  const ActiveSpec& active = shown.module.train.active_classes;
  const std::string log_q = active.log_q ? ", log_q=true" : "";
  const std::string amount =
      active.amount <= 1 ? fmt::format("{:g}%", 100 * active.amount) : fmt::format("{:.0f}", active.amount);
  return active.kind == ActiveSpec::kAll ? std::string(def.fallback)
         : active.kind == ActiveSpec::kSample
             ? fmt::format("sample({}{})", amount, log_q)
             : fmt::format("knn(neighbours={}, active={}, rebuild={}, exact={}{}{})", active.neighbours, amount,
                           to_text(active.rebuild), active.exact,
                           active.exact ? "" : fmt::format(", probes={}", active.probes), log_q);
}

std::string show_compress(const SettingDef& def, const Shown& shown) {
  const CompressSpec& compress = shown.module.train.compress;
  return !compress.is_on() ? std::string(def.fallback)
                           : fmt::format("topk({:g}%{}{}{})", 100 * compress.density,
                                         compress.on.empty() ? "" : ", on=" + paths_text(compress.on),
                                         compress.warmup ? ", warmup=" + to_text(*compress.warmup) : "",
                                         compress.per_node ? ", per_node=true" : "");
}

std::string show_ema(const SettingDef& def, const Shown& shown) {
  const double ema = shown.module.train.ema;
  return ema > 0 ? number_text(ema) : std::string(def.fallback);
}

std::string show_stop(const SettingDef& def, const Shown& shown) {
  return shown.run.stop_when ? shown.run.stop_when->text : std::string(def.fallback);
}

std::string show_network(const SettingDef& def, const Shown& shown) {
  const NetworkSpec& network = shown.module.cluster.network;
  return network.known() ? fmt::format("{}({}B/s, latency={}s)", network.name, number_text(network.rate),
                                       number_text(network.latency))
                         : std::string(def.fallback);
}

std::string show_recompute(const SettingDef& def, const Shown& shown) {
  const auto& hint = shown.module.schedule.recompute;
  return !hint                                      ? std::string(def.fallback)
         : hint->value.mode == RecomputeHint::kNone ? "none"
         : hint->value.mode == RecomputeHint::kAll  ? "all"
                                                    : paths_text(hint->value.paths);
}

std::string show_pipeline(const SettingDef& def, const Shown& shown) {
  const auto& hint = shown.module.schedule.pipeline;
  return hint ? to_text(hint->value) : std::string(def.fallback);
}

std::string show_over(const SettingDef&, const Shown& shown) {
  const ShardHint& shard = *shown.shard;
  return shard.by_node ? "nodes" : shard.on_all ? "all" : shard.shards > 0 ? std::to_string(shard.shards) : "auto";
}

}  // namespace xrun::lang
