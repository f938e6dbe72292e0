// Checks that a training program keeps the hints of the module's schedule: its numbers, its pins, the layers that run
// again, the shards of heads, and the memory of a device.
// Tests: tests/planner/verify/verify_hints_test.cpp
#include <algorithm>
#include <set>

#include "planner/program/layer_paths.h"
#include "planner/program/run_memory.h"
#include "planner/verify/verify_parts.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

template <typename... Args>
Error breaks(Span span, fmt::format_string<Args...> what, Args&&... args) {
  return {ErrorKind::kContent, "XG0625", "the plan has " + fmt::format(what, std::forward<Args>(args)...),
          "make the plan again with `xrun plan`", span};
}

class Hints {
 public:
  Hints(const Program& program, const Module& module, const Machine& machine)
      : program_(program), module_(module), graph_(module.graph), schedule_(module.schedule), machine_(machine) {}

  Status run() const {
    XRUN_TRY(check_numbers());
    XRUN_TRY(check_memory());
    XRUN_TRY(check_pins());
    XRUN_TRY(check_recomputation());
    return check_shards();
  }

 private:
  Status check_number(const char* name, int64_t has, const std::optional<Hint<int64_t>>& hint) const {
    return !hint || hint->value == has
               ? Status()
               : breaks(hint->span, "{} = {}, where the schedule asks for {}", name, has, hint->value);
  }

  Status check_numbers() const {
    XRUN_TRY(check_number("stages", count(program_.stages), schedule_.stages));
    XRUN_TRY(check_number("micro_batches", program_.micro_batches, schedule_.micro_batches));
    XRUN_TRY(check_number("replicas", program_.replicas, schedule_.replicas));
    const auto& pipeline = schedule_.pipeline;
    if (pipeline && (pipeline->value.kind != program_.schedule || pipeline->value.warm_up != program_.warm_up ||
                     pipeline->value.stages_of_device() != program_.stages_of_device())) {
      return breaks(schedule_.pipeline->span, "another pipeline than the schedule asks for");
    }
    if (schedule_.overlap && schedule_.overlap->value != program_.overlap) {
      return breaks(schedule_.overlap->span, "overlap = {}, where the schedule asks for {}", program_.overlap,
                    schedule_.overlap->value);
    }
    return {};
  }

  Status check_memory() const {
    const auto& limit = schedule_.memory_limit;
    const Bytes largest = largest_device_of(program_);
    if (machine_.has_gpus() && largest > machine_.device_memory) {
      return breaks({}, "a device with {}, where an {} has {}", format_bytes(largest), machine_.gpu,
                    format_bytes(machine_.device_memory));
    }
    return !limit || largest <= limit->value ? Status()
                                             : breaks(limit->span, "a device with {}, where memory_limit is {}",
                                                      format_bytes(largest), format_bytes(limit->value));
  }

  std::vector<NodeId> forward_nodes() const {
    std::vector<NodeId> nodes;
    for (const Stage& stage : program_.stages) {
      nodes.insert(nodes.end(), stage.forward.begin(), stage.forward.end());
    }
    return nodes;
  }

  Status check_pins() const {
    const std::vector<NodeId> nodes = forward_nodes();
    std::vector<int> stages;
    for (const Stage& stage : program_.stages) {
      stages.insert(stages.end(), stage.forward.size(), stage.index);
    }
    XRUN_ASSIGN(const std::vector<int> pinned, pinned_stages(module_, nodes));
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (pinned[i] >= 0 && pinned[i] != stages[i]) {
        const auto pin = std::ranges::find(schedule_.pins, pinned[i], &PinHint::stage);
        return breaks(pin->span, "`{}` on stage {}, where the schedule pins it to stage {}", graph_.node(nodes[i]).path,
                      stages[i], pinned[i]);
      }
    }
    return {};
  }

  // Checks that the layers which the hint names run again, except those whose values nothing reads, and that others run
  // again only if a layer that does so reads their values and nothing keeps them.
  Status check_recomputation() const {
    if (!schedule_.recompute) {
      return {};
    }
    const bool all = schedule_.recompute->value.mode == RecomputeHint::kAll;
    XRUN_ASSIGN(const std::vector<bool> named, named_to_run_again(module_, forward_nodes()));
    size_t first = 0;  // index of the first node of a stage in `named`
    for (const Stage& stage : program_.stages) {
      const std::vector<bool> again = stage.runs_again();
      std::set<ValueId> kept = values_read(stage.backward);
      std::set<ValueId> read;
      for (size_t i = stage.forward.size(); i-- > 0;) {
        const Node& node = graph_.node(stage.forward[i]);
        const auto any = [&](const std::set<ValueId>& values) {
          return std::ranges::any_of(node.outputs, [&](ValueId value) { return values.contains(value); });
        };
        const bool lost = std::ranges::any_of(
            node.outputs, [&](ValueId value) { return read.contains(value) && !kept.contains(value); });
        if (again[i] != (lost || ((all || named[first + i]) && (any(kept) || any(read))))) {
          return breaks(schedule_.recompute->span, "`{}`, which {} again, contrary to the schedule", node.path,
                        again[i] ? "runs" : "does not run");
        }
        if (again[i]) {
          read.insert(node.inputs.begin(), node.inputs.end());
        }
      }
      first += stage.forward.size();
    }
    return {};
  }

  std::set<ValueId> values_read(const std::vector<NodeId>& nodes) const {
    std::set<ValueId> values;
    for (const NodeId id : nodes) {
      values.insert(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    }
    return values;
  }

  Status check_shards() const {
    for (const ShardHint& hint : schedule_.shards) {
      for (const HeadPlan& head : program_.heads) {
        const bool passes = hint.granularity == "step" || hint.granularity == "micro_batch";
        const int64_t rows =
            hint.granularity == "step" ? program_.batch : program_.micro_batch_rows() * program_.replicas;
        if (passes && head.rows != rows) {
          return breaks(hint.span, "head passes of {} rows, where the schedule asks for passes of a {}", head.rows,
                        hint.granularity);
        }
        if (graph_.heads[static_cast<size_t>(head.head)].name == hint.head) {
          XRUN_TRY(check_places(hint, head));
        }
      }
    }
    return {};
  }

  Status check_places(const ShardHint& hint, const HeadPlan& head) const {
    if (!hint.by_node && !hint.on_all && hint.shards == 0) {
      return {};  // the plan chooses the number of shards
    }
    const int64_t wanted = hint.by_node ? machine_.nodes() : hint.on_all ? machine_.devices : hint.shards;
    if (count(head.shards) != wanted) {
      return breaks(hint.span, "{} shards of `{}`, where the schedule asks for {}", head.shards.size(), hint.head,
                    wanted);
    }
    std::set<int> nodes;
    for (const HeadShard& shard : head.shards) {
      const bool in_place = hint.by_node ? nodes.insert(machine_.node_of(shard.device)).second
                                         : shard.device == shard.shard % machine_.devices;
      if (!in_place) {
        return breaks(hint.span, "shard {} of `{}` on device {}, where the schedule does not place it", shard.shard,
                      hint.head, shard.device);
      }
    }
    return {};
  }

  const Program& program_;
  const Module& module_;
  const Graph& graph_;
  const ScheduleSpec& schedule_;
  const Machine& machine_;
};

}  // namespace

Status verify_hints(const Program& program, const Module& module, const Machine& machine) {
  return Hints(program, module, machine).run();
}

}  // namespace xrun::planner
