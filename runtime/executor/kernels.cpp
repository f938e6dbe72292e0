#include "runtime/executor/kernels.h"

#include "ops/kernel_spec.h"
#include "runtime/executor/row_offsets.h"

namespace xrun::runtime {
namespace {

Error plan_differs(const std::string& what, Span span) {
  return {ErrorKind::kContent, "XG0625", "the plan was made for other kernels than this machine has: " + what,
          "make the plan again on this machine with `xrun plan`", span};
}

Status check_scratch(const Graph& graph, const std::vector<NodeId>& nodes, const planner::BlockLayout& layout,
                     const KernelSet& kernels) {
  for (const NodeId id : nodes) {
    const Bytes wanted = kernels.of(id)->scratch_bytes();
    if (wanted > layout.bytes - layout.kernel_offset) {
      return plan_differs("`" + graph.node(id).path + "` (" + std::string(graph.node(id).op->name) + ") works in " +
                              format_bytes(wanted) + ", planned are " +
                              format_bytes(layout.bytes - layout.kernel_offset),
                          graph.node(id).span);
    }
  }
  return {};
}

// Prepared weights have the size, and their update the scratch, that the kernel asks for.
Status check_prepared(const Graph& graph, const planner::Program& program, const KernelSet& kernels) {
  for (const planner::Buffer& buffer : program.buffers) {
    if (buffer.purpose != planner::Purpose::kPrepared) {
      continue;
    }
    const Bytes wanted = kernels.of(buffer.node)->prepared_bytes(buffer.slot);
    if (wanted > buffer.bytes) {
      return plan_differs("`" + graph.node(buffer.node).path + "` prepares its weight in " + format_bytes(wanted) +
                              ", planned are " + format_bytes(buffer.bytes),
                          graph.node(buffer.node).span);
    }
  }
  for (const planner::Instruction& instruction : program.instructions) {
    if (instruction.kind != planner::Kind::kUpdate) {
      continue;
    }
    const planner::Buffer* scratch = find_purpose(program, instruction, planner::Purpose::kScratch);
    const Bytes slice =
        scratch == nullptr ? 0 : scratch->bytes / program.threads[static_cast<size_t>(instruction.device)];
    for (const planner::BufferId id : instruction.writes) {
      const planner::Buffer& buffer = program.buffer(id);
      if (buffer.purpose == planner::Purpose::kPrepared && kernels.of(buffer.node)->scratch_bytes() > slice) {
        return plan_differs("`" + graph.node(buffer.node).path + "` prepares its weight by means of " +
                                format_bytes(kernels.of(buffer.node)->scratch_bytes()) + ", planned are " +
                                format_bytes(slice),
                            graph.node(buffer.node).span);
      }
    }
  }
  return {};
}

}  // namespace

Result<KernelSet> KernelSet::make(const Graph& graph, const planner::Program& program, ops::Isa isa) {
  KernelSet set;
  set.kernels_.resize(graph.nodes.size());
  const ops::KernelOptions options{.block_rows = program.block_rows,
                                   .training = program.training,
                                   .deterministic = program.deterministic,
                                   .isa = isa};
  const auto add = [&](NodeId id) -> Status {
    auto& slot = set.kernels_[static_cast<size_t>(id.index)];
    if (slot != nullptr) {
      return {};
    }
    XRUN_ASSIGN(slot, ops::make_kernel(graph, graph.node(id), options));
    return {};
  };
  for (const planner::Stage& stage : program.stages) {
    for (const auto* list : {&stage.forward, &stage.backward, &stage.recomputed}) {
      for (const NodeId id : *list) {
        XRUN_TRY(add(id));
      }
    }
    XRUN_TRY(check_scratch(graph, stage.forward, stage.forward_layout, set));
    XRUN_TRY(check_scratch(graph, stage.recomputed, stage.backward_layout, set));
    XRUN_TRY(check_scratch(graph, stage.backward, stage.backward_layout, set));
  }
  XRUN_TRY(check_prepared(graph, program, set));
  return set;
}

}  // namespace xrun::runtime
