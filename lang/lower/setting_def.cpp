// The table of all settings, and look-ups in it.
// Tests: tests/lang/lower/lower_schedule_test.cpp, tests/cases/settings_test.cpp
#include "lang/lower/setting_def.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/settings/group_rules.h"
#include "lang/lower/math_text.h"
#include "lang/lower/module_builder.h"
#include "lang/lower/setting_show.h"
#include "lang/lower/setting_store.h"
#include "lang/lower/setting_text.h"

namespace xrun::lang {

namespace {

template <auto kMember>
constexpr SettingDef::Access kStored{&ModuleBuilder::store<kMember>, &show_member<kMember>};
template <auto kMember>
constexpr SettingDef::Access kChoice{&ModuleBuilder::store_choice<kMember>, &show_choice<kMember>};

constexpr DeclKind kData = DeclKind::kData;
constexpr DeclKind kTrain = DeclKind::kTrain;
constexpr DeclKind kCluster = DeclKind::kCluster;
constexpr DeclKind kSchedule = DeclKind::kSchedule;
constexpr DeclKind kRun = DeclKind::kRun;

constexpr double kMany = 1 << 20;
constexpr double kMostSteps = 0x1p50;
constexpr double kMostSamples = 1 << 30;  // samples per batch; bounded because the planner tries all divisors
constexpr double kMostCores = 1024;       // the limit of --devices
constexpr double kMostNodes = 1024;
constexpr double kMostGpus = 1024;
constexpr double kMostBytes = 1e6 * 0x1p40;

constexpr std::string_view kShardLines = "write a group for each head\nshard HEAD {\n  over = 2\n}";

using B = ModuleBuilder;
using Access = SettingDef::Access;
using Def = SettingDef;
using Train = const TrainSpec&;

constexpr SettingDef kSettings[] = {
    Def{kData, "", "max_bad", "share", "0.1%", "the share of broken samples at which a run ends",
        kStored<&DataSpec::max_bad>, 0, 1},
    Def{kData, "", "classes", "{ moved OLD -> NEW }", "{}",
        "classes whose names have changed since earlier checkpoints; `classes INPUT { ... }`: those of one input",
        &B::lower_classes}
        .such_as("write a line for each class\nclasses {\n  moved cat -> \"wild cat\"\n}"),
    Def{kData, "", "NAME", "field -> stages", "the field of its own name",
        "how an input of the model or a label is made from a field", &B::lower_binding},

    // The records are in the order of the math text.
    Def{kTrain, "", "batch", "int, grow(sizes, over: span, after: span = none)", "required",
        "samples of a step, on all devices together; or the sizes between which it grows", Access(nullptr, show_batch),
        1, kMostSamples}
        .learned(batch_line)
        .such_as("batch = 64"),
    Def{kTrain, "", "epochs", "number", "required, or `steps`", "how often the training samples are seen",
        Access(nullptr, show_duration), 1e-9, 1e12}
        .learned([](Train t) { return fmt::format("duration {}\n", exact(t.duration)); })
        .such_as("epochs = 10"),
    Def{kTrain, "", "steps", "int", "required, or `epochs`", "how many updates are made",
        Access(nullptr, show_duration), 1, kMostSteps},
    Def{kTrain, "", "loss", "expr", "required", "one value a sample; the run minimises their mean"}.such_as(
        "loss = softmax_ce(logits, label)"),
    Def{kTrain, "", "reduce", "mean, sum", "mean", "how the losses of a batch are combined into one",
        kChoice<&TrainSpec::reduce_sum>}
        .learned(),
    Def{kTrain, "", "optimizer", "sgd adamw lars lamb, another of std/optimizers, or one of the file", "required",
        "how gradients become updates", Access(&B::lower_optimizer, show_optimizer)}
        .learned(optimizer_line)
        .such_as("optimizer = sgd(momentum=0.9)"),
    Def{kTrain, "", "lr", "number, curve, list of curves", "required", "the learning rate",
        Access(&B::lower_rate, show_rate)}
        .learned(rate_lines)
        .such_as("lr = cosine(0.1 .. 0)"),
    Def{kTrain, "", "groups", "{ PATH { lr, weight_decay, ... } }", "{}",
        "learning rates, decay and formats of some tensors, by prefix", &B::lower_group}
        .learned(group_lines)
        .such_as("write a group for each prefix of tensors\ngroups {\n  PATH {\n    lr = 0.1\n  }\n}"),
    Def{kTrain, "groups", "PATH", "{ lr, weight_decay, weights, states, untouched, rows }", "",
        "the tensors at and below a path", &B::lower_tensors},
    Def{kTrain, "groups PATH", "lr", "number", "1", "a factor of the learning rate", kStored<&GroupSpec::lr>},
    Def{kTrain, "groups PATH", "weight_decay", "number", "that of the optimizer", "the decay of these tensors",
        kStored<&GroupSpec::weight_decay>},
    Def{kTrain, "groups PATH", "weights", "f32, bf16, fp8", "f32",
        "the format of a head's class weights in memory; updates are rounded to it stochastically",
        kChoice<&GroupSpec::weights>},
    Def{kTrain, "groups PATH", "states", "f32, bf16", "f32", "the format of the optimizer's states for these tensors",
        kChoice<&GroupSpec::states>},
    Def{kTrain, "groups PATH", "untouched", "as_is, exact", "as_is",
        "class rows that are not active: as_is leaves them unchanged; exact applies, when they become active again, "
        "the updates that the decaying momentum would have made",
        kChoice<&GroupSpec::untouched>},
    Def{kTrain, "groups PATH", "rows", "memory, mapped", "memory",
        "where a head's class weights and their states are kept: in memory, or in a file next to the checkpoints",
        kChoice<&GroupSpec::rows>},
    Def{kTrain, "", "freeze", "list of paths", "[]", "tensors that are not trained",
        Access(&B::lower_freeze, show_freeze)}
        .learned(freeze_lines),
    Def{kTrain, "", "precision", "f32, mixed(bf16), mixed(f16, loss_scale)", "f32",
        "the format to which operands are rounded; `loss_scale` of f16 is dynamic, none or a power of two",
        Access(&B::lower_precision, show_precision)}
        .learned([](Train t) {
          const LossScaleSpec& scale = t.loss_scale;
          return fmt::format("precision {}{}\n",
                             t.precision == PrecisionMode::kF32         ? "f32"
                             : t.precision == PrecisionMode::kMixedBf16 ? "mixed_bf16"
                                                                        : "mixed_f16",
                             !scale.is_on()                          ? ""
                             : scale.kind == LossScaleSpec::kDynamic ? " dynamic"
                                                                     : fmt::format(" {:.0f}", scale.first));
        })
        .of_choices("f32, mixed(dtype: symbol, loss_scale = usual)"),
    Def{kTrain, "", "seed", "int", "1", "the seed of all random numbers", kStored<&TrainSpec::seed>}.learned(),
    Def{kTrain, "", "norm_rows", "int, global", "follows from `batch`",
        "samples that batch norm normalises together and kernels compute at once",
        Access(nullptr, &show_member<&TrainSpec::norm_rows>), 1, kMany}
        .learned([](Train t) { return fmt::format("norm_rows {}\nlanes 4\n", t.norm_rows); })
        .of_choices("global"),
    Def{kTrain, "", "grad_accumulation", "int", "1", "batches whose gradients are added before an update",
        kStored<&TrainSpec::grad_accumulation>, 1, kMany}
        .learned(),
    Def{kTrain, "", "clip", "none, norm(x: float, heads: bool = false), value(x: float)", "none",
        "limits the size of gradients", Access(&B::lower_clip, show_clip)}
        .learned(clip_line),
    Def{kTrain, "", "init", "seed, checkpoint(path: str, skip: list = [])", "seed", "the initial weights",
        Access(&B::lower_init, show_init)}
        .learned([](Train t) {
          return fmt::format("init {}\n", t.init_checkpoint.empty() ? "seed" : without_directory(t.init_checkpoint));
        }),
    Def{kTrain, "", "order", "shuffled, sequential, balanced", "shuffled",
        "the order of the samples of an epoch; balanced: equally many of each class",
        Access(&B::lower_order, &show_choice<&TrainSpec::order>)}
        .learned(),
    Def{kTrain, "", "class_weights", "none, inverse_frequency, csv(path: str)", "none",
        "how much the loss of a sample counts, by its class", Access(&B::lower_class_weights, show_class_weights)}
        .learned(class_weight_line),

    Def{kTrain, "", "deterministic", "bool", "false", "results have the same bits for every plan",
        kStored<&TrainSpec::deterministic>},
    Def{kTrain, "", "metrics", "list", "[]",
        "measured in training and, without `eval`, on all other sources after each epoch",
        Access(&B::lower_metrics, show_metrics)},
    Def{kTrain, "", "eval", "{ every, NAME = metric(...) }", "`metrics`, after each epoch",
        "measured on other sources while training", &B::lower_eval}
        .such_as("write\neval {\n  every = 1 epoch\n  test  = accuracy(logits, label, source=test)\n}"),
    Def{kTrain, "eval", "every", "span", "1 epoch", "when it is measured",
        Access(&B::store<&TrainSpec::eval_every>, show_eval_every)},
    Def{kTrain, "eval", "NAME", "metric(...)", "", "a metric of one source, reported under this name",
        &B::lower_eval_metric},
    Def{kTrain, "", "log", "{ every, tensorboard, prometheus }", "10 steps", "how often progress is reported",
        &B::lower_group}
        .such_as("write\nlog {\n  every = 10 steps\n}"),
    Def{kTrain, "log", "every", "span", "10 steps", "the span between two reports", kStored<&TrainSpec::log_every>},
    Def{kTrain, "log", "tensorboard", "bool", "false", "event files for TensorBoard, next to the checkpoints",
        kStored<&TrainSpec::log_tensorboard>},
    Def{kTrain, "log", "prometheus", "none, str", "none",
        "where Prometheus reads the figures of the run: address and port, \"127.0.0.1:9464\"",
        Access(&B::lower_prometheus, show_prometheus)},
    Def{kTrain, "", "checkpoint", "{ every, keep, best, dir, async, copy }", "every epoch", "when the run is saved",
        &B::lower_group}
        .such_as("write\ncheckpoint {\n  every = 1 epoch\n}"),
    Def{kTrain, "checkpoint", "every", "span, auto(mtbf: quantity = 24h)", "1 epoch",
        "the span between two saves; auto: the one that costs least if a failure happens every `mtbf` on average",
        Access(&B::lower_checkpoint_every, show_save_every)}
        .of_choices("auto(mtbf: quantity = 24h)"),
    Def{kTrain, "checkpoint", "keep", "int", "3", "how many checkpoints are kept", kStored<&TrainSpec::checkpoint_keep>,
        1, kMany},
    Def{kTrain, "checkpoint", "best", "none, highest(METRIC, keep), lowest(METRIC, keep)", "none",
        "evaluated steps with the best values, kept in addition to the last", Access(&B::lower_best, show_best)},
    Def{kTrain, "checkpoint", "dir", "str", "ckpt/NAME", "the directory of the checkpoints",
        Access(&B::store<&TrainSpec::checkpoint_dir>, show_directory)},
    Def{kTrain, "checkpoint", "async", "bool", "false", "saves while training continues",
        kStored<&TrainSpec::checkpoint_async>},
    Def{kTrain, "checkpoint", "copy", "none, str", "none", "where each host keeps a second copy, on a disk of its own",
        Access(&B::lower_copy, show_copy)},
    Def{kTrain, "", "active_classes",
        "all, sample(p: float, log_q: bool = false), knn(neighbours: int, active: float, rebuild: span, exact: bool = "
        "true, probes: int = 16, log_q: bool = false)",
        "all", "which classes of a sharded head take part in a step, in addition to those of its labels",
        Access(&B::lower_active_classes, show_active)}
        .learned(active_line),
    Def{kTrain, "", "compress",
        "none, topk(p: float, per_layer: bool = true, on: symbol = all, warmup: span = none, per_node: bool = false)",
        "none", "sends only the largest gradients of a step between replicas or nodes, and the others later",
        Access(&B::lower_compress, show_compress)}
        .learned(compress_line),
    Def{kTrain, "", "stop_when", "none, plateau(METRIC, span), METRIC >= number", "none",
        "ends the run early, after an evaluation", Access(&B::lower_stop, show_stop)},
    Def{kTrain, "", "ema", "none or float", "none",
        "the share of itself that a running mean of the weights keeps in each step; evaluation and predictions use the "
        "mean",
        Access(&B::lower_ema, show_ema), 0, 1}
        .learned([](Train t) { return t.ema > 0 ? fmt::format("ema {}\n", exact(t.ema)) : std::string(); }),

    Def{kCluster, "", "nodes", "int", "1", "the number of machines, which are all alike", kStored<&ClusterSpec::nodes>,
        1, kMostNodes},
    Def{kCluster, "", "network",
        "none, ethernet(rate: quantity, latency: quantity = none), infiniband(rate: quantity, latency: quantity = "
        "none)",
        "none", "what joins the machines: the rate of each machine's link, in each direction",
        Access(&B::lower_network, show_network)},
    Def{kCluster, "", "node", "{ cpu, cores, memory, storage, gpu, gpus, ... }", "detected", "one machine",
        &B::lower_group}
        .such_as("write\nnode {\n  cores  = 2\n  memory = 16GiB\n}"),
    Def{kCluster, "node", "cpu", "name or str", "cpu", "the name of the processor in reports",
        Access(&B::lower_cpu, &show_member<&ClusterSpec::cpu>)},
    Def{kCluster, "node", "cores", "auto, int", "auto", "how many cores the planner may use; auto: all",
        kStored<&ClusterSpec::cores>, 1, kMostCores},
    Def{kCluster, "node", "memory", "auto, size", "auto", "the memory of the machine; auto: what it has",
        kStored<&ClusterSpec::memory>, 1, kMostBytes},
    Def{kCluster, "node", "storage", "rate", "none",
        "how fast its files are read and written: gives the predicted time of saves", kStored<&ClusterSpec::storage>,
        1},
    Def{kCluster, "node", "gpu",
        "none, tpu_v2, tpu_v3, p100, v100_16g, p40, rtx_4090, v100_32g, a100_40g, l40s, a100_80g, h100, h100_80g, "
        "h200, "
        "b200",
        "none",
        "the kind of its accelerators, which are the devices of plans; without it, its cores are; `h100_80g` is "
        "`h100`; "
        "a `tpu` is one core of a chip, for plans only",
        Access(&B::store_choice<&ClusterSpec::gpu>, &show_member<&ClusterSpec::gpu>)},
    Def{kCluster, "node", "gpus", "int", "1", "how many GPUs of this kind it has", kStored<&ClusterSpec::gpus>, 1,
        kMostGpus},
    Def{kCluster, "node", "device", "{ memory, bandwidth, flops { f32, bf16 }, link, host }", "none",
        "the figures of its devices, for plans with accelerators that `gpu` does not name", Access(&B::lower_device)}
        .such_as("write\ndevice {\n  memory    = 80GB\n  bandwidth = 2TB/s\n  flops {\n    f32  = 60TFLOPS\n    bf16 = "
                 "900TFLOPS\n  }\n}"),
    Def{kCluster, "node", "calibration", "{ instructions, f32, bf16, bandwidth, ... }", "none",
        "measured times of its processor, which `xrun bench --calibrate` writes", Access(&B::lower_calibration)}
        .such_as("write the group that `xrun bench --calibrate -o here.xgraph` makes"),
    Def{kCluster, "node", "link", "nvlink(rate: quantity), pcie(rate: quantity)", "detected", "what joins its GPUs",
        &B::check_choice}
        .not_yet("leave it out: plans take the published rate of NVLink"),
    Def{kCluster, "", "reserve", "auto, size", "auto", "memory that is left unused", kStored<&ClusterSpec::reserve>, 0,
        kMostBytes},

    Def{kSchedule, "", "stages", "auto, int", "auto", "stages of the pipeline", kStored<&ScheduleSpec::stages>, 1,
        kMany},
    Def{kSchedule, "", "micro_batches", "auto, int", "auto", "equal pieces of the global batch",
        kStored<&ScheduleSpec::micro_batches>, 1, kMany},
    Def{kSchedule, "", "pipeline",
        "auto, gpipe, one_f_one_b(warm_up: int = 0), interleaved(chunks: int = 2), zb_v, zero_bubble", "auto",
        "the order of forward and backward passes; `interleaved` and `zb_v` put several stages on each device, `zb_v` "
        "and `zero_bubble` compute gradients of weights while a device would wait",
        Access(&B::lower_pipeline, show_pipeline)},
    Def{kSchedule, "", "replicas", "auto, int", "auto", "copies of the pipeline", kStored<&ScheduleSpec::replicas>, 1,
        kMany},
    Def{kSchedule, "", "recompute", "auto, none, all, list of paths", "auto",
        "activations that are computed again instead of kept", Access(&B::lower_recompute, show_recompute)},
    Def{kSchedule, "", "overlap", "auto, bool", "auto", "communication runs during computation",
        kStored<&ScheduleSpec::overlap>},
    Def{kSchedule, "", "bucket", "size", "25MiB",
        "gradients that replicas reduce together; the next ones are sent while these are summed",
        kStored<&ScheduleSpec::bucket>, 1, kMostBytes},
    Def{kSchedule, "", "shard", "HEAD { over, split, granularity }", "auto", "how a head is split", &B::lower_group}
        .such_as(kShardLines),
    Def{kSchedule, "shard", "HEAD", "{ over, split, granularity }", "auto", "a head of the model", &B::lower_shard}
        .such_as(kShardLines),
    Def{kSchedule, "shard HEAD", "over", "auto, all, nodes, int", "auto", "how many shards",
        Access(&B::lower_over, show_over), 1, kMany}
        .of_choices("nodes, all, auto"),
    Def{kSchedule, "shard HEAD", "split", "classes", "classes", "the dimension along which a head is split",
        Access(&B::check_choice, show_default)},
    Def{kSchedule, "shard HEAD", "granularity", "auto, micro_batch, step", "auto",
        "the samples of one pass of the head: those of a micro-batch or of a step", kChoice<&ShardHint::granularity>},
    Def{kSchedule, "", "pin", "{ PATH = stage(k) }", "{}", "the stage of each part of the model", &B::lower_group}
        .such_as("write\npin {\n  PATH = stage(0)\n}"),
    Def{kSchedule, "pin", "PATH", "stage(k: int)", "", "the stage of all parts at and below a path", &B::lower_pin},
    Def{kSchedule, "", "memory_limit", "auto, size", "auto", "memory that a device may use; auto: what it has",
        kStored<&ScheduleSpec::memory_limit>, 1, kMostBytes},

    Def{kRun, "", "model", "NAME", "the only one", "the model"},
    Def{kRun, "", "data", "NAME", "the only one", "the data it learns from"},
    Def{kRun, "", "train", "NAME", "the only one", "how it learns"},
    Def{kRun, "", "cluster", "NAME", "the only one", "the machine"},
    Def{kRun, "", "schedule", "NAME", "the only one", "the hints"},
};

}  // namespace

std::span<const SettingDef> all_settings() { return kSettings; }

std::string SettingDef::path() const {
  std::string text = group.empty() ? std::string(key) : fmt::format("{}.{}", group, key);
  std::replace(text.begin(), text.end(), ' ', '.');
  return text;
}

std::string SettingDef::text(const Shown& shown) const {
  return access.show == nullptr || later ? "" : access.show(*this, shown);
}

const SettingDef* find_setting(DeclKind kind, std::string_view group, std::string_view key) {
  const auto found = std::find_if(std::begin(kSettings), std::end(kSettings), [&](const SettingDef& def) {
    return def.kind == kind && def.group == group && def.key == key && !def.is_name();
  });
  return found == std::end(kSettings) ? nullptr : found;
}

const SettingDef& setting(DeclKind kind, std::string_view key) {
  const SettingDef* def = find_setting(kind, {}, key);
  XRUN_CHECK(def != nullptr, "no record of the setting " + std::string(key));
  return *def;
}

std::vector<std::string> setting_keys(DeclKind kind, std::string_view group) {
  std::vector<std::string> keys;
  for (const SettingDef& def : kSettings) {
    if (def.kind == kind && def.group == group && !def.is_name()) {
      keys.emplace_back(def.key);
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

// Divides the text of the choices at commas outside brackets: "a, f(x: int, y: int), b" has three choices.
std::vector<SettingChoice> choices_of(const SettingDef& def) {
  const std::string_view text = def.choices.empty() ? def.type : def.choices;
  std::vector<SettingChoice> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    depth += i < text.size() && text[i] == '(' ? 1 : i < text.size() && text[i] == ')' ? -1 : 0;
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      const std::string_view part = text.substr(begin, i - begin);
      const size_t open = std::min(part.find('('), part.size());
      parts.push_back({part.substr(0, open), part.substr(open), static_cast<int>(parts.size())});
      begin = i + 2;
    }
  }
  return parts;
}

}  // namespace xrun::lang
