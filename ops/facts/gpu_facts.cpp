// Tests: tests/ops/facts/gpu_facts_test.cpp
#include "ops/facts/gpu_facts.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/random.h"
#include "ops/gpu/launch/gpu_kernel.h"
#include "ops/kernel_spec.h"

namespace xrun::ops {
namespace {

// Operators that have kernels (docs/internals/gpu_kernels.md), but no list of launches yet.
constexpr std::string_view kWithoutLaunches[] = {"conv", "conv.dx", "conv.dw", "dwconv", "attention", "attention.grad"};

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

bool is_on_gpus(std::string_view op) {
  return gpu::has_gpu_kernel(op) || std::ranges::find(kWithoutLaunches, op) != std::end(kWithoutLaunches);
}

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
      fact.missing = !is_on_gpus(node.op->name);
      text += fmt::format(";{}:{}", node.op->name, fmt::join(fact.prepared, ","));
    }
    facts.nodes.push_back(std::move(fact));
  }
  facts.digest = fmt::format("{:016x}", stable_hash(text));
  return facts;
}

}  // namespace xrun::ops
