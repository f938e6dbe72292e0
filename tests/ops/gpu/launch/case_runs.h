// Calls of operators with the cases of the conformance suite (tests/ops/cases.h), several row blocks at once.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/ops/case_graph.h"
#include "tests/ops/gpu/launch/launch_runner.h"

namespace xrun::ops::gpu {

inline constexpr int64_t kBlocks = 3;  // row blocks of a call

// The values of a row block: those of the case, rotated by some elements if they differ between row blocks.
inline Values values_of_block(const TensorType& type, const Values& values, int64_t block) {
  Values rotated = values;
  if (type.has_batch() && !values.empty()) {
    std::ranges::rotate(rotated,
                        rotated.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(5 * block) % values.size()));
  }
  return rotated;
}

inline Raw raw_of(const TensorType& type, int64_t rows, const Values& values) {
  Raw bytes(static_cast<size_t>(type.bytes(rows, rows)));
  write_values(type, rows, values, bytes.data());
  return bytes;
}

using BlockValues = std::map<ValueId, std::vector<Values>>;  // values of each row block

// The operands of a node. Accumulators start with numbers, other outputs with NaN.
inline NodeRun run_of(const Graph& graph, const Node& node, int64_t rows, const BlockValues& values) {
  NodeRun run{.op = node.op, .blocks = kBlocks};
  run.spec = spec_of(graph, node, {.norm_rows = rows, .training = true, .deterministic = true, .isa = Isa::kAvx2});
  for (const ValueId id : node.inputs) {
    Operand operand{.type = graph.value(id).type, .blocks = {}};
    for (int64_t b = 0; b < (operand.is_whole() ? 1 : kBlocks); ++b) {
      operand.blocks.push_back(raw_of(operand.type, rows, values.at(id)[static_cast<size_t>(b)]));
    }
    run.inputs.push_back(std::move(operand));
  }
  for (const ValueId id : node.outputs) {
    Operand operand{.type = graph.value(id).type, .blocks = {}};
    const auto bytes = static_cast<size_t>(operand.type.bytes(rows, rows));
    if (operand.is_whole()) {
      operand.blocks.push_back(raw_of(operand.type, rows, random_values(bytes / 4, -1, 1, 400)));
    } else {
      operand.blocks.assign(kBlocks, Raw(bytes, std::byte{0xFF}));
    }
    run.outputs.push_back(std::move(operand));
  }
  return run;
}

// Calls body(before, after) for each node of a case, forward and backward, with the operands before and after the call
// of the processor's kernel for each row block. A fatal failure ends it.
template <class Body>
void for_each_run(size_t index, DType dtype, const Body& body) {
  const Case c = conformance_cases()[index];
  auto built = build(c, dtype, true);
  ASSERT_TRUE(built.ok()) << built.error().message;
  Graph& graph = built->graph;
  BlockValues values;
  for (const auto& [id, given] : built->values) {
    for (int64_t b = 0; b < kBlocks; ++b) {
      values[id].push_back(values_of_block(graph.value(id).type, given, b));
    }
  }
  for (const Node& node : graph.nodes) {
    set_layouts(graph, node, Layout::kChannelsLast);
    const NodeRun before = run_of(graph, node, c.rows, values);
    NodeRun after = before;
    run_on_processor(after);
    if (testing::Test::HasFatalFailure()) {
      return;
    }
    body(before, after);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Operand& output = after.outputs[i];
      for (int64_t b = 0; b < kBlocks; ++b) {
        values[node.outputs[i]].push_back(
            read_values(output.type, c.rows, output.blocks[output.is_whole() ? 0 : static_cast<size_t>(b)].data()));
      }
    }
  }
}

// The PTX machine takes too long for convolutions and attention with more multiply-adds in all row blocks.
inline constexpr double kMostMultiplyAdds = 2e5;

inline bool is_small(const Case& c) {
  const OpDef& op = find_op(c.op)->def;
  if ((op.group != "convolution" && op.group != "attention") || op.cost == nullptr) {
    return true;
  }
  TensorType x{.dims = c.inputs[0]};
  x.dims.insert(x.dims.begin(), kBatch);
  const std::span<const TensorType> inputs(&x, 1);
  const double flops = op.cost(inputs, op.infer(inputs, c.attrs)->outputs, c.attrs).flops;
  return flops / 2 * static_cast<double>(c.rows * kBlocks) <= kMostMultiplyAdds;
}

// The cases for each type of numbers, without operators that have no launches at all and without large cases.
inline std::vector<std::tuple<size_t, DType>> cases_with_launches() {
  std::vector<std::tuple<size_t, DType>> chosen;
  const std::vector<Case> cases = conformance_cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    if (has_gpu_kernel(cases[i].op) && is_small(cases[i])) {
      chosen.emplace_back(i, DType::kF32);
      if (find_op(cases[i].op)->def.precision != PrecisionRule::kWide) {
        chosen.emplace_back(i, DType::kBF16);
      }
      if (find_op(cases[i].op)->def.group == "pointwise") {  // compiled from their expressions
        chosen.emplace_back(i, DType::kF16);
      }
    }
  }
  return chosen;
}

}  // namespace xrun::ops::gpu
