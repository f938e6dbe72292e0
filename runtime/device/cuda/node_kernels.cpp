#include "runtime/device/cuda/node_kernels.h"

#include <fmt/format.h>

namespace xrun::cuda {
namespace {

using ops::gpu::GpuKernel;
using planner::Operand;
using planner::Role;

// Checks that memory of the plan is as large as a kernel needs. `purpose`: "works in".
Status check_size(const Node& node, const char* purpose, Bytes needed, Bytes planned) {
  if (needed <= planned) {
    return {};
  }
  return Error{ErrorKind::kContent, "XG0625",
               fmt::format("the plan was made for other kernels of GPUs: `{}` ({}) {} {}, but the plan has {}",
                           node.path, node.op->name, purpose, format_bytes(needed), format_bytes(planned)),
               "make the plan again with this version of xrun", node.span};
}

Status check_pass(const Graph& graph, const planner::Instruction& pass, const NodeKernels& kernels) {
  Bytes scratch = 0;
  for (const Operand& operand : pass.operands) {
    scratch = operand.role == Role::kScratch ? operand.bytes : scratch;
  }
  for (const NodeId id : pass.nodes) {
    XRUN_TRY(check_size(graph.node(id), "works in", kernels.of(id)->scratch_bytes(), scratch));
  }
  return {};
}

}  // namespace

Result<NodeKernels> NodeKernels::make(const Graph& graph, const planner::Program& program, ops::GpuTarget target) {
  NodeKernels made;
  made.kernels_.resize(graph.nodes.size());
  const ops::gpu::GpuOptions options{.kernel = {.norm_rows = program.norm_rows,
                                                .training = program.training,
                                                .deterministic = program.deterministic,
                                                .compile = true},
                                     .target = target,
                                     .most_blocks = program.micro_batch_rows() / program.norm_rows};
  for (const planner::Stage& stage : program.stages) {
    for (const auto* nodes : {&stage.forward, &stage.backward, &stage.recomputed}) {
      for (const NodeId id : *nodes) {
        if (auto& kernel = made.kernels_[static_cast<size_t>(id.index)]; kernel == nullptr) {
          XRUN_ASSIGN(kernel, make_gpu_kernel(graph, graph.node(id), options));
        }
      }
    }
  }
  for (const planner::Buffer& buffer : program.buffers) {
    if (buffer.purpose == planner::Purpose::kPrepared) {
      XRUN_TRY(check_size(graph.node(buffer.node), "prepares its weight in",
                          made.of(buffer.node)->prepared_bytes(buffer.node_input), buffer.bytes));
    }
  }
  for (const planner::Instruction& instruction : program.instructions) {
    if (planner::is_stage_pass(instruction.kind)) {
      XRUN_TRY(check_pass(graph, instruction, made));
    }
  }
  return made;
}

}  // namespace xrun::cuda
