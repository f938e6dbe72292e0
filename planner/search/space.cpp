// Lists the settings of a search. For each number of stages, micro-batches and replicas that the batch and the devices
// permit and no hint excludes, there is a setting for each pipeline and each placement of heads. Combinations that
// cannot be faster than others are left out to bound the search, unless a hint asks for them. A hint that no
// setting can meet is rejected first, with the values that it could have. If no setting remains, the hints exclude one
// another.
#include "planner/search/space.h"

#include <algorithm>

#include "graph/layouts/head_shape.h"
#include "planner/search/mesh.h"
#include "planner/search/row_blocks.h"

namespace xrun::planner {
namespace {

// The maximum number of micro-batches, unless a hint, replicas or accumulation require more. With more micro-batches,
// starting the passes of one takes longer than the passes themselves.
constexpr int64_t kMostMicroBatches = 64;

Error refuse(const char* code, std::string message, std::string help, Span span) {
  return {ErrorKind::kContent, code, std::move(message), std::move(help), span};
}

std::string list(const std::vector<int64_t>& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return text;
}

// "one of 1, 2, 4", or "1" if there is only one value.
std::string one_of(const std::vector<int64_t>& values) { return (values.size() > 1 ? "one of " : "") + list(values); }

// Returns the possible numbers of micro-batches: a micro-batch has whole row blocks, all of one of the batches that an
// update accumulates.
std::vector<int64_t> micro_batch_counts(const TrainSpec& train) {
  std::vector<int64_t> counts = divisors(train.batch / train.norm_rows);
  std::erase_if(counts, [&](int64_t count) { return count % train.accumulated() != 0; });
  return counts;
}

Status check_stages(const Module& module, const Chain& chain, const Machine& machine) {
  if (!module.schedule.stages) {
    return {};
  }
  const Hint<int64_t>& hint = *module.schedule.stages;
  const int64_t layers = chain.most_stages();
  if (hint.value < 1) {
    return refuse("XG0602", "stages = " + std::to_string(hint.value) + ": a model has at least one stage", "stages = 1",
                  hint.span);
  }
  if (hint.value > machine.devices) {
    return refuse("XG0602",
                  std::to_string(hint.value) + " stages need as many devices, there " +
                      (machine.devices == 1 ? "is 1" : "are " + std::to_string(machine.devices)),
                  "stages = 1 .. " + std::to_string(machine.devices) + ", or --devices " + std::to_string(hint.value),
                  hint.span);
  }
  if (hint.value > layers) {
    return refuse("XG0602",
                  std::to_string(hint.value) + " stages of a model that can be cut into " + std::to_string(layers),
                  "stages = 1 .. " + std::to_string(layers), hint.span);
  }
  return {};
}

// Returns the error for a number of micro-batches that would cut a row block. Its second place in the text is the node
// that combines the rows of a block.
Error cut_row_blocks(const Module& module, const Hint<int64_t>& hint, const std::vector<int64_t>& legal) {
  const TrainSpec& train = module.train;
  const int64_t rows = train.batch / hint.value;
  const auto coupled = std::ranges::find_if(module.graph.nodes, [](const Node& node) {
    return node.op->rows == RowProperty::kRowCoupled && node.phase == Phase::kForward;
  });
  const bool has_norm = coupled != module.graph.nodes.end();
  Error error = refuse(
      "XG0605",
      "micro-batches of " + std::to_string(rows) + " rows cannot hold row blocks of " + std::to_string(train.norm_rows),
      "one of", hint.span);
  error.label =
      std::to_string(train.batch) + " samples / " + std::to_string(hint.value) + " = " + std::to_string(rows) + " rows";
  if (has_norm) {
    error.others.push_back(
        {coupled->span, "needs " + std::to_string(train.norm_rows) + " rows together (train.norm_rows)"});
    error.notes.push_back("a schedule may not regroup the samples of a batch norm: that would change what is learned");
  } else {
    error.notes.push_back("a row block, `train.norm_rows`, is the unit of every kernel call: nothing cuts it");
  }
  const auto fits = std::find_if(legal.rbegin(), legal.rend(), [&](int64_t count) { return count <= hint.value; });
  const auto choice = [](std::string text, const char* where) {
    text.resize(std::max<size_t>(text.size(), 22), ' ');
    return text + " " + where;
  };
  error.choices = {
      choice("micro_batches = " + std::to_string(fits != legal.rend() ? *fits : legal.front()), "in the schedule"),
      choice("norm_rows = " + std::to_string(rows), has_norm ? "in train: noisier statistics" : "in train")};
  return error;
}

Status check_micro_batches(const Module& module) {
  if (!module.schedule.micro_batches) {
    return {};
  }
  const Hint<int64_t>& hint = *module.schedule.micro_batches;
  const TrainSpec& train = module.train;
  const int64_t blocks = train.batch / train.norm_rows;
  const std::vector<int64_t> legal = micro_batch_counts(train);
  if (std::find(legal.begin(), legal.end(), hint.value) != legal.end()) {
    return {};
  }
  const std::string choices = "micro_batches = " + one_of(legal);
  if (hint.value >= 1 && blocks % hint.value == 0) {
    return refuse("XG0605",
                  std::to_string(hint.value) + " micro-batches of " + std::to_string(train.accumulated()) +
                      " batches of " + std::to_string(train.batch / train.accumulated()) +
                      " rows: none may hold rows of two batches (" +
                      (train.growth ? "train.batch" : "train.grad_accumulation") + ")",
                  choices, hint.span);
  }
  if (hint.value < 1 || train.batch % hint.value != 0) {
    return refuse(
        "XG0605",
        std::to_string(train.batch) + " samples do not make " + std::to_string(hint.value) + " equal micro-batches",
        choices, hint.span);
  }
  return cut_row_blocks(module, hint, legal);
}

Status check_replicas(const Module& module, const Machine& machine, int64_t blocks, bool deterministic) {
  if (!module.schedule.replicas) {
    return {};
  }
  const Hint<int64_t>& hint = *module.schedule.replicas;
  if (hint.value < 1 || hint.value > machine.devices) {
    return refuse("XG0603",
                  std::to_string(hint.value) + " replicas need as many devices, there " +
                      (machine.devices == 1 ? "is 1" : "are " + std::to_string(machine.devices)),
                  "replicas = 1 .. " + std::to_string(machine.devices) + ", or --devices " +
                      std::to_string(std::max<int64_t>(1, hint.value)),
                  hint.span);
  }
  if (hint.value > kMostReplicas) {
    return refuse("XG0603",
                  std::to_string(hint.value) + " replicas: their gradients are summed over " +
                      std::to_string(kMostReplicas) + " at most",
                  "replicas = 1 .. " + std::to_string(kMostReplicas) + "; further devices can take stages and shards",
                  hint.span);
  }
  // The first steps of a growing batch have the fewest row blocks.
  const int64_t least = module.train.growth ? blocks / module.train.growth->times : blocks;
  if (least % hint.value != 0) {
    return refuse("XG0603",
                  std::to_string(least) + " row blocks" + (least < blocks ? " of the first steps" : "") +
                      " cannot be shared out among " + std::to_string(hint.value) + " replicas",
                  "replicas = " + one_of(divisors(least)), hint.span);
  }
  const int64_t partials = std::min<int64_t>(4, blocks);
  if (deterministic && partials % hint.value != 0) {
    return refuse("XG0603",
                  std::to_string(partials) + " partials of gradients cannot be shared out among " +
                      std::to_string(hint.value) + " replicas (deterministic)",
                  "replicas = " + one_of(divisors(partials)), hint.span);
  }
  return {};
}

// Returns the first hint that sets the granularity of a head's passes; null if there is none. It holds for all heads,
// since their passes run together.
const ShardHint* find_granularity(const ScheduleSpec& schedule) {
  for (const ShardHint& hint : schedule.shards) {
    if (hint.granularity == "micro_batch" || hint.granularity == "step") {
      return &hint;
    }
  }
  return nullptr;
}

Status check_granularity(const ScheduleSpec& schedule) {
  const ShardHint* first = find_granularity(schedule);
  for (const ShardHint& hint : schedule.shards) {
    if (first != nullptr && hint.granularity == (first->granularity == "step" ? "micro_batch" : "step")) {
      return refuse("XG0607",
                    "`" + first->head + "` has passes of a " + first->granularity + ", `" + hint.head + "` of a " +
                        hint.granularity + ": passes of all heads go together",
                    "granularity = " + first->granularity + " for every head", hint.span);
    }
  }
  return {};
}

int devices_of_first_node(const Machine& machine) {
  int count = 0;
  while (count < machine.devices && machine.node_of(count) == machine.node_of(0)) {
    ++count;
  }
  return count;
}

// Returns the error for hints that exclude one another. It lists all given hints and has the place of one of them.
Error conflict(const ScheduleSpec& schedule, const TrainSpec& train, const Machine& machine) {
  std::string hints;
  Span span = schedule.span;
  const auto add = [&](const char* name, const std::optional<Hint<int64_t>>& hint) {
    if (hint) {
      hints += (hints.empty() ? "" : ", ") + (name + (" = " + std::to_string(hint->value)));
      span = hint->span;
    }
  };
  add("stages", schedule.stages);
  add("micro_batches", schedule.micro_batches);
  add("replicas", schedule.replicas);
  return refuse(
      "XG0606", "no plan on " + std::to_string(machine.devices) + " devices has " + hints,
      "stages x replicas is at most the number of devices, and replicas" +
          (train.growth ? " x " + std::to_string(train.growth->times) + " (the growth of the batch)" : std::string()) +
          " divides micro_batches",
      span);
}

bool in_range(int64_t value, const std::optional<Hint<int64_t>>& hint) { return !hint || hint->value == value; }

}  // namespace

bool places_heads(const ScheduleSpec& schedule) {
  return std::ranges::any_of(schedule.shards, [](const ShardHint& hint) { return hint.shards > 0 || hint.by_node; });
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
  if (setting.pipeline == PipelineKind::kOneFOneB) {
    text += ", pipeline = one_f_one_b";
  }
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

Result<std::vector<Setting>> legal_settings(const Module& module, const Chain& chain, const Machine& machine,
                                            bool deterministic) {
  const TrainSpec& train = module.train;
  const ScheduleSpec& schedule = module.schedule;
  if (train.norm_rows < 1 || train.batch % train.norm_rows != 0) {
    std::vector<int64_t> legal = divisors(train.batch);
    if (has_coupled_rows(module.graph) && train.batch > 1) {
      std::erase(legal, 1);  // a batch norm learns nothing from groups of one sample
    }
    return refuse("XG0507",
                  "row blocks of " + std::to_string(train.norm_rows) + " samples do not divide a batch of " +
                      std::to_string(train.batch),
                  "norm_rows = " + one_of(legal), train.batch_span);
  }
  const int64_t blocks = train.batch / train.norm_rows;
  XRUN_TRY(check_stages(module, chain, machine));
  XRUN_TRY(check_micro_batches(module));
  XRUN_TRY(check_replicas(module, machine, blocks, deterministic));
  XRUN_TRY(check_granularity(schedule));
  const int64_t layers = chain.most_stages();
  const ShardHint* granularity = find_granularity(schedule);
  const bool whole_step = granularity != nullptr && granularity->granularity == "step";
  const std::vector<int64_t> counts = micro_batch_counts(train);
  // The first steps of a growing batch have a `times`-th of the micro-batches.
  const int64_t times = train.growth ? train.growth->times : 1;
  bool early_backward = false;
  // In a cluster, settings with heads only on the first node are also tried.
  const int first_node = devices_of_first_node(machine);
  const bool heads_move = first_node < machine.devices && !module.graph.heads.empty() && !places_heads(schedule);
  std::vector<Setting> settings;
  for (int stages = 1; stages <= std::min<int64_t>(machine.devices, layers); ++stages) {
    for (int replicas = 1; replicas <= std::min(machine.devices / stages, kMostReplicas); ++replicas) {
      if (!in_range(stages, schedule.stages) || !in_range(replicas, schedule.replicas) || blocks % replicas != 0 ||
          (deterministic && std::min<int64_t>(4, blocks) % replicas != 0)) {
        continue;
      }
      for (const int64_t count : counts) {
        const bool wanted =
            schedule.micro_batches
                ? count == schedule.micro_batches->value
                : count <= std::max<int64_t>({kMostMicroBatches, replicas * times, train.accumulated()});
        // Unless a hint sets the number of replicas, only two numbers are tried: the largest possible one
        // (docs/internals/algorithms.md, "Mesh"), and one, in case that sums over replicas cost more than they save.
        const int partials = deterministic ? static_cast<int>(std::min<int64_t>(4, blocks)) : 0;
        const int most = default_replicas(machine.devices, stages, static_cast<int>(count / times), partials);
        // In a cluster, the largest number of replicas on one node is also tried, since it needs no network.
        const int inside = default_replicas(first_node, stages, static_cast<int>(count / times), partials);
        const bool usual = replicas == 1 || replicas == most || (first_node >= stages && replicas == inside);
        if (!wanted || count % (replicas * times) != 0 || (!schedule.replicas && !usual)) {
          continue;
        }
        for (const PipelineKind kind : {PipelineKind::kGpipe, PipelineKind::kOneFOneB}) {
          const bool hinted = schedule.pipeline.has_value();
          // With one stage, 1F1B has no advantage except that it saves memory if an update accumulates several batches.
          const bool alone = stages == 1 && train.accumulated() == 1;
          if (hinted ? schedule.pipeline->value != kind
                     : kind == PipelineKind::kOneFOneB && (alone || count == replicas)) {
            continue;
          }
          // A single head pass for the whole step requires all forward passes before the first backward pass.
          if (whole_step && kind == PipelineKind::kOneFOneB && count != replicas) {
            early_backward = true;
            continue;
          }
          settings.push_back({stages, replicas, static_cast<int>(count), kind});
          if (heads_move) {
            settings.push_back({stages, replicas, static_cast<int>(count), kind, first_node});
          }
        }
      }
    }
  }
  if (settings.empty() && early_backward) {
    return refuse("XG0607", "granularity = step under one_f_one_b: backward passes begin before all features are made",
                  "granularity = micro_batch, or pipeline = gpipe", granularity->span);
  }
  if (settings.empty()) {
    return conflict(schedule, train, machine);
  }
  return settings;
}

}  // namespace xrun::planner
