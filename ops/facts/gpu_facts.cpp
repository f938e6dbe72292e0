// Tests: tests/ops/facts/gpu_facts_test.cpp
#include "ops/facts/gpu_facts.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/random.h"
#include "ops/kernel_spec.h"

namespace xrun::ops {
namespace {

// The operators that have kernels, in the order of docs/internals/gpu_kernels.md.
constexpr std::string_view kOnGpus[] = {
    // element-wise, with their gradients
    "relu", "relu.grad", "gelu", "gelu.grad", "silu", "silu.grad", "sigmoid", "sigmoid.grad", "tanh", "tanh.grad",
    "exp", "exp.grad", "log", "log.grad", "sqrt", "sqrt.grad", "erf", "erf.grad", "scale_shift", "scale_shift.grad",
    "add", "sub", "mul", "bias.grad", "cast", "dropout", "map", "map.sum", "add.sum", "param.sum", "fill",
    // rows
    "softmax", "softmax.grad", "l2norm", "l2norm.grad", "layer_norm", "layer_norm.grad", "rms_norm", "rms_norm.grad",
    "softmax_ce", "softmax_ce.dx", "accuracy",
    // batch norm
    "bn", "bn.add", "bn.grad", "state.update",
    // pooling
    "max_pool", "max_pool.grad", "avg_pool", "avg_pool.grad", "global_avg_pool", "global_avg_pool.grad",
    // layouts
    "flatten", "reshape", "stop_gradient", "transpose", "reorder", "slice", "slice.grad", "concat", "class_token",
    "class_token.grad", "position_embedding", "position_embedding.grad",
    // products, convolutions and attention
    "linear", "linear.dx", "linear.dw", "matmul", "conv", "conv.dx", "conv.dw", "dwconv", "attention",
    "attention.grad"};

bool is_bf16(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.inputs, [&](ValueId input) { return graph.value(input).type.dtype == DType::kBF16; });
}

// Returns the bytes of the prepared form of each input of a node: those of products in bf16.
std::vector<Bytes> prepared_of(const Graph& graph, const Node& node) {
  const bool rounds = is_bf16(graph, node);
  std::vector<Bytes> prepared;
  for (const ValueId input : node.inputs) {
    const Value& value = graph.value(input);
    const bool is_matrix = value.param.valid() && value.type.rank() > 1 && value.type.dtype == DType::kF32;
    prepared.push_back(is_matrix && rounds ? value.type.row_elements() * size_of(DType::kBF16) : 0);
  }
  return prepared;
}

}  // namespace

std::span<const std::string_view> gpu_operators() { return kOnGpus; }

KernelFacts gpu_facts(const Graph& graph, int64_t norm_rows, bool training, bool deterministic, const GpuDef& gpu) {
  KernelFacts facts{.isa = std::string(gpu.name),
                    .flops_per_second_f32 = gpu.flops_per_second_f32,
                    .flops_per_second_bf16 = gpu.flops_per_second_bf16,
                    .bytes_per_second = gpu.bytes_per_second,
                    .host_rate = gpu.host_rate,
                    .call = gpu.launch};
  std::string text = fmt::format("{};{};{};{}", facts.isa, norm_rows, training, deterministic);
  for (const Node& node : graph.nodes) {
    KernelFact fact{.prepared = std::vector<Bytes>(node.inputs.size(), 0)};
    if (has_kernel(node)) {
      fact.prepared = prepared_of(graph, node);
      fact.missing = std::ranges::find(kOnGpus, node.op->name) == std::end(kOnGpus);
      text += fmt::format(";{}:{}", node.op->name, fmt::join(fact.prepared, ","));
    }
    facts.nodes.push_back(std::move(fact));
  }
  facts.digest = fmt::format("{:016x}", stable_hash(text));
  return facts;
}

}  // namespace xrun::ops
