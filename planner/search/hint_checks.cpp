// Checks the hints of a schedule: each by itself, before the search, and all together if no setting remains.
// Tests: tests/planner/search/space_test.cpp
#include <algorithm>

#include "graph/layouts/head_shape.h"
#include "planner/search/row_blocks.h"
#include "planner/search/space.h"

namespace xrun::planner {
namespace {

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

// Returns "one of 1, 2, 4", or "1" if there is only one value.
std::string one_of(const std::vector<int64_t>& values) { return (values.size() > 1 ? "one of " : "") + list(values); }

// Checks that row blocks divide the batch.
Status check_row_blocks(const Module& module) {
  const TrainSpec& train = module.train;
  if (train.norm_rows >= 1 && train.batch % train.norm_rows == 0) {
    return {};
  }
  std::vector<int64_t> legal = divisors(train.batch);
  if (has_coupled_rows(module.graph) && train.batch > 1) {
    std::erase(legal, 1);  // a batch norm cannot learn from groups of one sample
  }
  return refuse("XG0507",
                "row blocks of " + std::to_string(train.norm_rows) + " samples do not divide a batch of " +
                    std::to_string(train.batch),
                "norm_rows = " + one_of(legal), train.batch_span);
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
  const auto& pipeline = module.schedule.pipeline;
  const int chunks = pipeline ? pipeline->value.stages_of_device() : 1;
  if (hint.value % chunks != 0) {
    return refuse("XG0602",
                  std::to_string(hint.value) + " stages cannot be shared out: `" +
                      std::string(word_of(pipeline->value.kind)) + "` has " + std::to_string(chunks) +
                      " on each device",
                  "stages = a multiple of " + std::to_string(chunks), hint.span);
  }
  if (chunks > 1 && hint.value > int64_t{machine.devices} * chunks) {
    return refuse("XG0602",
                  std::to_string(hint.value) + " stages need " + std::to_string(hint.value / chunks) +
                      " devices, but there " +
                      (machine.devices == 1 ? "is only 1" : "are only " + std::to_string(machine.devices)),
                  "stages = at most " + std::to_string(int64_t{machine.devices} * chunks) + ", or --devices " +
                      std::to_string(hint.value / chunks),
                  hint.span);
  }
  if (chunks == 1 && hint.value > machine.devices) {
    return refuse("XG0602",
                  std::to_string(hint.value) + " stages need as many devices, but there " +
                      (machine.devices == 1 ? "is only 1" : "are only " + std::to_string(machine.devices)),
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

// Rejects schedules with several stages on a device if stages could share a weight, since a device would have it twice.
Status check_chunks(const Module& module) {
  const auto& hint = module.schedule.pipeline;
  if (!hint || hint->value.stages_of_device() == 1) {
    return {};
  }
  for (const Parameter& param : module.graph.params) {
    if (param.tied.valid()) {
      return refuse("XG0609",
                    "`" + std::string(word_of(hint->value.kind)) +
                        "` puts several stages on a device, but stages may share `" + param.name + "`",
                    "pipeline = gpipe, one_f_one_b or zero_bubble", hint->span);
    }
  }
  return {};
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
                  "a micro-batch may not contain rows of two batches: " + std::to_string(hint.value) +
                      " micro-batches cannot be cut from " + std::to_string(train.accumulated()) + " batches of " +
                      std::to_string(train.batch / train.accumulated()) + " rows (a step takes " +
                      std::to_string(train.accumulated()) + " batches because of `" +
                      (train.growth ? "train.batch" : "train.grad_accumulation") + "`)",
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
                  std::to_string(hint.value) + " replicas need as many devices, but there " +
                      (machine.devices == 1 ? "is only 1" : "are only " + std::to_string(machine.devices)),
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
  const auto& pipeline = schedule.pipeline;
  const int chunks = pipeline ? pipeline->value.stages_of_device() : 1;
  if (pipeline && pipeline->value.kind > PipelineKind::kOneFOneB) {
    hints += (hints.empty() ? "" : ", ") + ("pipeline = " + std::string(word_of(pipeline->value.kind)));
    span = span == schedule.span ? pipeline->span : span;
  }
  const std::string groups =
      pipeline && pipeline->value.kind == PipelineKind::kInterleaved
          ? "; micro-batches pass the devices of a replica in groups of equal size, at least one "
            "for each device unless there are fewer"
          : "";
  return refuse(
      "XG0606", "no plan on " + std::to_string(machine.devices) + " devices has " + hints,
      "stages x replicas is at most " + (chunks == 1 ? "" : std::to_string(chunks) + " times ") +
          "the number of devices" + groups + ", and replicas" +
          (train.growth ? " x " + std::to_string(train.growth->times) + " (the growth of the batch)" : std::string()) +
          " divides micro_batches",
      span);
}

}  // namespace

Status check_hints(const Module& module, const Chain& chain, const Machine& machine, bool deterministic) {
  XRUN_TRY(check_row_blocks(module));
  XRUN_TRY(check_chunks(module));
  XRUN_TRY(check_stages(module, chain, machine));
  XRUN_TRY(check_micro_batches(module));
  XRUN_TRY(check_replicas(module, machine, module.train.batch / module.train.norm_rows, deterministic));
  return check_granularity(module.schedule);
}

Error no_setting(const Module& module, const Machine& machine, bool early_backward) {
  if (early_backward) {
    const auto& pipeline = module.schedule.pipeline;
    const PipelineKind kind = pipeline ? pipeline->value.kind : PipelineKind::kOneFOneB;
    return refuse("XG0607",
                  "granularity = step under " + std::string(word_of(kind)) +
                      ": backward passes begin before all features are made",
                  "granularity = micro_batch, or pipeline = gpipe", find_granularity(module.schedule)->span);
  }
  return conflict(module.schedule, module.train, machine);
}

}  // namespace xrun::planner
