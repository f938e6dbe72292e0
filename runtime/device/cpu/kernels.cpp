#include "runtime/device/cpu/kernels.h"

#include "ops/kernel_spec.h"

namespace xrun::runtime {
namespace {

Error plan_differs(const std::string& what, Span span) {
  return {ErrorKind::kContent, "XG0625", "the plan was made for other kernels than this machine has: " + what,
          "make the plan again on this machine with `xrun plan`", span};
}

// Checks that the scratch of an instruction is as large as its kernels need.
Status check_scratch(const Graph& graph, const planner::Instruction& instruction, const KernelSet& kernels) {
  Bytes scratch = 0;
  for (const planner::Operand& operand : instruction.operands) {
    scratch = operand.role == planner::Role::kScratch ? operand.bytes : scratch;
  }
  for (const planner::Operand& operand : instruction.operands) {
    const ops::Kernel* kernel = operand.node.valid() ? kernels.of(operand.node) : nullptr;
    const bool prepares = operand.role == planner::Role::kPrepared;
    const bool runs = planner::is_stage_pass(instruction.kind) && operand.role == planner::Role::kOutput;
    if (kernel == nullptr || !(prepares || runs)) {
      continue;
    }
    const Node& node = graph.node(operand.node);
    if (kernel->scratch_bytes() > scratch) {
      return plan_differs("`" + node.path + "` (" + std::string(node.op->name) +
                              (prepares ? ") prepares its weight in " : ") works in ") +
                              format_bytes(kernel->scratch_bytes()) + ", but the plan has " + format_bytes(scratch),
                          node.span);
    }
  }
  return {};
}

}  // namespace

Result<KernelSet> KernelSet::make(const Graph& graph, const planner::Program& program, ops::Isa isa) {
  KernelSet set;
  set.kernels_.resize(graph.nodes.size());
  const ops::KernelOptions options{.norm_rows = program.norm_rows,
                                   .training = program.training,
                                   .deterministic = program.deterministic,
                                   .isa = isa,
                                   .compile = true};
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
  }
  // A forward pass of a program that does not train also has prepared weights.
  for (const planner::Buffer& buffer : program.buffers) {
    if (buffer.purpose == planner::Purpose::kPrepared &&
        set.of(buffer.node)->prepared_bytes(buffer.node_input) > buffer.bytes) {
      return plan_differs("`" + graph.node(buffer.node).path + "` prepares its weight in " +
                              format_bytes(set.of(buffer.node)->prepared_bytes(buffer.node_input)) +
                              ", but the plan has " + format_bytes(buffer.bytes),
                          graph.node(buffer.node).span);
    }
  }
  for (const planner::Instruction& instruction : program.instructions) {
    XRUN_TRY(check_scratch(graph, instruction, set));
  }
  return set;
}

}  // namespace xrun::runtime
