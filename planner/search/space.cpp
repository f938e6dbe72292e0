// Lists the settings of a search. For each number of devices, micro-batches and replicas that the batch and the machine
// permit and no hint excludes, there is a setting for each pipeline, each granularity of head passes and each placement
// of heads. Combinations that
// cannot be faster than others are left out to bound the search, unless a hint asks for them. A hint that no
// setting can meet is rejected first, with the values that it could have (hint_checks.cpp). If no setting remains, the
// hints exclude one another.
#include "planner/search/space.h"

#include <algorithm>

namespace xrun::planner {
namespace {

// The maximum number of micro-batches, unless a hint, replicas or accumulation require more. With more micro-batches,
// starting the passes of a micro-batch takes longer than the passes themselves.
constexpr int64_t kMostMicroBatches = 64;

// The most stages on a device and in all, unless a hint asks for more. With more stages, hand-overs and transfers take
// more time than shorter waits save.
constexpr int kMostChunks = 4;
constexpr int kMostChunkedStages = 16;

int devices_of_first_node(const Machine& machine) {
  int count = 0;
  while (count < machine.devices && machine.node_of(count) == machine.node_of(0)) {
    ++count;
  }
  return count;
}

bool in_range(int64_t value, const std::optional<Hint<int64_t>>& hint) { return !hint || hint->value == value; }

// Lists the settings of a module on a machine.
class SettingList {
 public:
  SettingList(const Module& module, const Machine& machine, bool deterministic)
      : train_(module.train),
        schedule_(module.schedule),
        devices_(machine.devices),
        blocks_(train_.batch / train_.norm_rows),
        partials_(deterministic ? static_cast<int>(std::min<int64_t>(4, blocks_)) : 0),
        first_node_(devices_of_first_node(machine)),
        heads_move_(first_node_ < machine.devices && !module.graph.heads.empty() && !places_heads(schedule_)),
        module_(module),
        may_share_weights_(
            std::ranges::any_of(module.graph.params, [](const Parameter& param) { return param.tied.valid(); })),
        granularity_(find_granularity(schedule_)),
        counts_(micro_batch_counts(train_)) {}

  void add_all(int64_t layers) {
    layers_ = layers;
    for (int ranks = 1; ranks <= std::min<int64_t>(devices_, layers); ++ranks) {
      for (int replicas = 1; replicas <= std::min(devices_ / ranks, kMostReplicas); ++replicas) {
        if (in_range(replicas, schedule_.replicas) && blocks_ % replicas == 0 &&
            (partials_ == 0 || partials_ % replicas == 0)) {
          add_counts(ranks, replicas);
        }
      }
    }
  }

  std::vector<Setting> settings;
  // Whether a setting was left out since its backward passes would begin before the single head pass of the step.
  bool early_backward = false;

 private:
  // Adds the settings of these devices and replicas with each number of micro-batches.
  void add_counts(int ranks, int replicas) {
    // The first steps of a growing batch have 1 / `times` of the micro-batches.
    const int64_t times = train_.growth ? train_.growth->times : 1;
    for (const int64_t count : counts_) {
      const bool wanted = schedule_.micro_batches
                              ? count == schedule_.micro_batches->value
                              : count <= std::max<int64_t>({kMostMicroBatches, replicas * times, train_.accumulated()});
      if (wanted && count % (replicas * times) == 0) {
        for (const PipelineHint& hint : pipelines(ranks, count / replicas)) {
          add_granularities({.stages = ranks * hint.stages_of_device(),
                             .replicas = replicas,
                             .micro_batches = static_cast<int>(count),
                             .pipeline = hint.kind,
                             .chunks = hint.stages_of_device(),
                             .warm_up = static_cast<int>(hint.warm_up)});
        }
      }
    }
  }

  // Returns the pipelines for `count` micro-batches on `ranks` devices: those whose orders may differ.
  std::vector<PipelineHint> pipelines(int ranks, int64_t count) const {
    if (schedule_.pipeline) {
      return {schedule_.pipeline->value};
    }
    std::vector<PipelineHint> all{{.kind = PipelineKind::kGpipe}};
    if (count == 1) {
      return all;
    }
    all.push_back({.kind = PipelineKind::kOneFOneB});
    if (ranks == 1) {
      return all;
    }
    // One more forward pass, and as many as hide transfers that take as long as a pass.
    for (const int warm_up : {1, ranks - 1}) {
      if (warm_up < count && warm_up != all.back().warm_up) {
        all.push_back({.kind = PipelineKind::kOneFOneB, .warm_up = warm_up});
      }
    }
    all.push_back({.kind = PipelineKind::kZeroBubble});
    if (!may_share_weights_) {
      all.push_back({.kind = PipelineKind::kZbV});
      for (int chunks = 2; chunks <= kMostChunks && ranks * chunks <= kMostChunkedStages; ++chunks) {
        all.push_back({.kind = PipelineKind::kInterleaved, .chunks = chunks});
      }
    }
    return all;
  }

  // Adds a setting with each granularity of head passes that hints permit.
  void add_granularities(Setting setting) {
    if (setting.stages > layers_ || !in_range(setting.stages, schedule_.stages)) {
      return;
    }
    const bool chooses = chooses_granularity(setting, module_);
    if (!chooses || !granularity_ || granularity_->granularity != "step") {
      add_pipeline(setting);
    }
    if (chooses && (!granularity_ || granularity_->granularity == "step")) {
      setting.one_head_pass = true;
      add_pipeline(setting);
    }
  }

  void add_pipeline(Setting setting) {
    // A single head pass for the whole step requires all forward passes before the first backward pass.
    const bool whole_step = granularity_ != nullptr && granularity_->granularity == "step";
    if (whole_step && setting.pipeline == PipelineKind::kOneFOneB && setting.micro_batches != setting.replicas) {
      early_backward = true;
      return;
    }
    // The smaller steps of a growing batch have fewer micro-batches.
    const int times = train_.growth ? static_cast<int>(train_.growth->times) : 1;
    const int unit = setting.micro_batches / setting.replicas / times;
    for (int units = 1; units <= times; ++units) {
      if (!permits(setting.pipeline, setting.ranks(), setting.chunks, units * unit)) {
        return;
      }
    }
    settings.push_back(setting);
    if (heads_move_) {
      setting.head_devices = first_node_;
      settings.push_back(setting);
    }
  }

  const TrainSpec& train_;
  const ScheduleSpec& schedule_;
  int devices_;
  int64_t blocks_;   // row blocks of the batch
  int partials_;     // gradient partials, which replicas share equally; 0: any number of replicas
  int first_node_;   // number of devices of the first node
  bool heads_move_;  // in a cluster: settings with heads only on the first node are also tried
  const Module& module_;
  bool may_share_weights_;        // stages may share a weight, so that a device may have only one of them
  const ShardHint* granularity_;  // the hint for head passes; null: none
  int64_t layers_ = 0;            // the most stages into which the layers can be cut
  std::vector<int64_t> counts_;
};

}  // namespace

bool permits(PipelineKind pipeline, int ranks, int chunks, int micro_batches) {
  const bool groups = pipeline == PipelineKind::kInterleaved && chunks > 1;
  return !groups || micro_batches % std::max(1, micro_batches / ranks) == 0;
}

Setting setting_of(const Program& program) {
  return {.stages = static_cast<int>(program.stages.size()),
          .replicas = program.replicas,
          .micro_batches = program.micro_batches,
          .pipeline = program.schedule,
          .chunks = program.stages_of_device(),
          .warm_up = program.warm_up,
          .one_head_pass = program.schedule > PipelineKind::kOneFOneB && !program.heads.empty() &&
                           program.heads[0].rows == program.batch && program.micro_batches > program.replicas};
}

bool chooses_granularity(const Setting& setting, const Module& module) {
  return setting.pipeline > PipelineKind::kOneFOneB && !module.graph.heads.empty() &&
         setting.micro_batches > setting.replicas;
}

bool places_heads(const ScheduleSpec& schedule) {
  return std::ranges::any_of(schedule.shards,
                             [](const ShardHint& hint) { return hint.shards > 0 || hint.on_all || hint.by_node; });
}

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> values;
  std::vector<int64_t> partners;  // descending
  for (int64_t d = 1; d <= n / d; ++d) {
    if (n % d == 0) {
      values.push_back(d);
      if (d != n / d) {
        partners.push_back(n / d);
      }
    }
  }
  values.insert(values.end(), partners.rbegin(), partners.rend());
  return values;
}

std::string to_text(const Setting& setting) {
  std::string text = "stages = " + std::to_string(setting.stages);
  if (setting.replicas > 1) {
    text += ", replicas = " + std::to_string(setting.replicas);
  }
  text += ", micro_batches = " + std::to_string(setting.micro_batches);
  if (setting.pipeline != PipelineKind::kGpipe) {
    text += ", pipeline = " + to_text(setting.hint());
  }
  text += setting.one_head_pass ? ", one head pass" : "";
  if (setting.head_devices > 0) {
    text += ", heads on " + std::to_string(setting.head_devices) + (setting.head_devices == 1 ? " device" : " devices");
  }
  return text;
}

int partials_of(const Setting& setting, bool deterministic, int64_t blocks, const Machine& machine) {
  if (deterministic) {
    return static_cast<int>(std::min<int64_t>(4, blocks));
  }
  const int64_t most = std::min<int64_t>(blocks / setting.micro_batches, kMostPartials);
  const int64_t each = std::clamp<int64_t>(machine.threads_of(0), 1, most);
  return static_cast<int>(each) * setting.replicas;
}

std::vector<int64_t> micro_batch_counts(const TrainSpec& train) {
  std::vector<int64_t> counts = divisors(train.batch / train.norm_rows);
  std::erase_if(counts, [&](int64_t count) { return count % train.accumulated() != 0; });
  return counts;
}

const ShardHint* find_granularity(const ScheduleSpec& schedule) {
  for (const ShardHint& hint : schedule.shards) {
    if (hint.granularity == "micro_batch" || hint.granularity == "step") {
      return &hint;
    }
  }
  return nullptr;
}

Result<std::vector<Setting>> legal_settings(const Module& module, const Chain& chain, const Machine& machine,
                                            bool deterministic) {
  XRUN_TRY(check_hints(module, chain, machine, deterministic));
  SettingList list(module, machine, deterministic);
  list.add_all(chain.most_stages());
  if (list.settings.empty()) {
    return no_setting(module, machine, list.early_backward);
  }
  return std::move(list.settings);
}

}  // namespace xrun::planner
