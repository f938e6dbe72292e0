// Tests: tests/ops/facts/gpu_facts_test.cpp
#include "ops/facts/gpu_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/random.h"
#include "ops/gpu/launch/gpu_kernel.h"
#include "ops/kernel_spec.h"

namespace xrun::ops {
namespace {

KernelFact fact_of(const Graph& graph, const Node& node, gpu::GpuOptions options) {
  KernelFact fact{.prepared = std::vector<Bytes>(node.inputs.size(), 0)};
  if (!has_kernel(node)) {
    return fact;
  }
  const auto kernel = make_gpu_kernel(graph, node, options);
  options.most_blocks = 2;
  const auto of_two = make_gpu_kernel(graph, node, options);
  if (!kernel.ok() || !of_two.ok()) {
    const std::string& reason = (kernel.ok() ? of_two : kernel).error().message;
    const std::string op = fmt::format("`{}`", node.op->name);
    fact.missing = reason.starts_with(op) ? reason : fmt::format("{} has no kernel of GPUs ({})", op, reason);
    return fact;
  }
  fact.scratch = (*kernel)->scratch_bytes();
  fact.block_scratch = (*of_two)->scratch_bytes() - fact.scratch;
  fact.prepares_in_scratch = false;
  for (size_t i = 0; i < fact.prepared.size(); ++i) {
    fact.prepared[i] = (*kernel)->prepared_bytes(static_cast<int>(i));
  }
  return fact;
}

}  // namespace

KernelFacts gpu_facts(const Graph& graph, int64_t norm_rows, bool training, bool deterministic, const GpuDef& gpu) {
  KernelFacts facts{.isa = std::string(gpu.name),
                    .flops_per_second_f32 = gpu.flops_per_second_f32,
                    .flops_per_second_bf16 = gpu.flops_per_second_bf16,
                    .bytes_per_second = gpu.bytes_per_second,
                    .host_rate = gpu.host_rate,
                    .call = gpu.launch};
  std::string text = fmt::format("{};{};{};{}", facts.isa, norm_rows, training, deterministic);
  const gpu::GpuOptions options{
      .kernel = {.norm_rows = norm_rows, .training = training, .deterministic = deterministic}};
  for (const Node& node : graph.nodes) {
    facts.nodes.push_back(fact_of(graph, node, options));
    const KernelFact& fact = facts.nodes.back();
    text += fmt::format(";{}:{}:{}:{}", node.op->name, fact.scratch, fact.block_scratch, fmt::join(fact.prepared, ","));
  }
  facts.digest = fmt::format("{:016x}", stable_hash(text));
  return facts;
}

}  // namespace xrun::ops
