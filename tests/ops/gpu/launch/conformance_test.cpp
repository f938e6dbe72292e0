// The launches of every operator that has them compute what the kernels of the processor compute: the cases of the
// conformance suite, forward and backward, with three row blocks in one list of launches.
#include <set>

#include "tests/ops/case_graph.h"
#include "tests/ops/gpu/launch/launch_runner.h"

namespace xrun::ops::gpu {
namespace {

constexpr int64_t kBlocks = 3;

// Operators whose sums have another order on a GPU, or whose functions are other ones, with the largest relative
// distance for f32. All others have the bits of the processor.
std::optional<double> bound_of(std::string_view op) {
  static const std::map<std::string_view, double> bounds{
      {"linear", 1e-6}, {"linear.dx", 1e-6},   {"linear.dw", 1e-6}, {"matmul", 1e-6},     {"einsum", 1e-6},
      {"power", 1e-6},  {"einsum.grad", 1e-6}, {"einsum.dw", 1e-6}, {"softmax_ce", 1e-6}, {"power.grad", 1e-6},
  };
  const auto at = bounds.find(op);
  return at == bounds.end() ? std::nullopt : std::optional(at->second);
}

// The values of a row block: those of the case, rotated by some elements if they differ between row blocks.
Values values_of_block(const TensorType& type, const Values& values, int64_t block) {
  Values rotated = values;
  if (type.has_batch() && !values.empty()) {
    std::ranges::rotate(rotated,
                        rotated.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(5 * block) % values.size()));
  }
  return rotated;
}

Raw raw_of(const TensorType& type, int64_t rows, const Values& values) {
  Raw bytes(static_cast<size_t>(type.bytes(rows, rows)));
  write_values(type, rows, values, bytes.data());
  return bytes;
}

class GpuConformance : public testing::TestWithParam<std::tuple<size_t, DType>> {
 protected:
  void SetUp() override {
    if (const JitReport report = open_jit(); report.compiler.empty()) {
      GTEST_SKIP() << "there is no compiler of loops";
    }
  }
};

using BlockValues = std::map<ValueId, std::vector<Values>>;  // values of each row block

// The operands of a node. Accumulators start with numbers, other outputs with NaN.
NodeRun run_of(const Graph& graph, const Node& node, int64_t rows, const BlockValues& values) {
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

// Compares the bits of a result, or its distance if `bound` is given.
void compare(const TensorType& type, const Raw& gpu, const Raw& cpu, std::optional<double> bound) {
  if (!bound) {
    if (is_narrow(type.dtype)) {
      EXPECT_TRUE(same_bits(values_of<uint16_t>(gpu), values_of<uint16_t>(cpu)));
    } else {
      EXPECT_TRUE(same_bits(values_of<float>(gpu), values_of<float>(cpu)));
    }
    return;
  }
  const auto numbers = [&](const Raw& raw) {
    Values values;
    for (size_t at = 0; at < raw.size(); at += static_cast<size_t>(size_of(type.dtype))) {
      values.push_back(
          static_cast<double>(type.dtype == DType::kBF16  ? to_float(*reinterpret_cast<const Bf16*>(raw.data() + at))
                              : type.dtype == DType::kF16 ? to_float(*reinterpret_cast<const Half*>(raw.data() + at))
                                                          : *reinterpret_cast<const float*>(raw.data() + at)));
    }
    return values;
  };
  EXPECT_LT(relative_distance(numbers(gpu), numbers(cpu)), type.dtype == DType::kF32 ? *bound : 1e-2);
}

void check_node(const NodeRun& before, const NodeRun& after, Target target, ptx::Order order) {
  SCOPED_TRACE(std::string(before.op->name) + " " + to_text(before.spec.attrs));
  GpuSpec spec{.op = before.op, .node = before.spec, .target = gpu_target(target), .most_blocks = kBlocks};
  spec.node.compile = true;
  const auto kernel = make_gpu_kernel(spec);
  if (!kernel.ok()) {
    EXPECT_EQ(kernel.error().code, "XG0824") << kernel.error().message;
    return;
  }
  const auto results = run_on_gpu(before, **kernel, target, order);
  if (!results) {
    return;
  }
  const bool wide = std::ranges::all_of(before.inputs, [](const Operand& o) { return o.type.dtype != DType::kBF16; });
  std::optional<double> bound = bound_of(before.op->name);
  if (!wide && (bound || before.op->name == "bn.prelu.grad")) {  // the norm is rounded before the function's gradient
    bound = 1e-2;
  }
  for (size_t i = 0; i < after.outputs.size(); ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    compare(after.outputs[i].type, results->outputs[i], after.outputs[i].joined(), bound);
  }
  for (size_t i = 0; i < after.folded.size(); ++i) {
    SCOPED_TRACE("state " + std::to_string(i));
    compare(after.folded[i].type, results->folded[i], after.folded[i].joined(), bound);
  }
}

TEST_P(GpuConformance, LaunchesForAllRowBlocksHaveTheBitsOfTheProcessor) {
  const auto [index, dtype] = GetParam();
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
  // Kernels for f32 run on the first GPU in a fair order, others on the second one in an unfair order.
  const bool first = dtype == DType::kF32;
  for (const Node& node : graph.nodes) {
    set_layouts(graph, node, Layout::kChannelsLast);
    const NodeRun before = run_of(graph, node, c.rows, values);
    NodeRun after = before;
    run_on_processor(after);
    if (HasFatalFailure()) {
      return;
    }
    if (has_gpu_kernel(node.op->name)) {
      check_node(before, after, kTargets[first ? 0 : 1], first ? ptx::Order::kFair : ptx::Order::kReversed);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Operand& output = after.outputs[i];
      for (int64_t b = 0; b < kBlocks; ++b) {
        values[node.outputs[i]].push_back(
            read_values(output.type, c.rows, output.blocks[output.is_whole() ? 0 : static_cast<size_t>(b)].data()));
      }
    }
  }
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<size_t, DType>>& info) {
  const auto [index, dtype] = info.param;
  std::string name = conformance_cases()[index].op + "_" + std::to_string(index) + "_" + std::string(name_of(dtype));
  std::ranges::replace(name, '.', '_');
  return name;
}

// The cases for each type of numbers, without operators that have no launches at all.
std::vector<std::tuple<size_t, DType>> cases_with_launches() {
  std::vector<std::tuple<size_t, DType>> chosen;
  const std::vector<Case> cases = conformance_cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    if (has_gpu_kernel(cases[i].op)) {
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

INSTANTIATE_TEST_SUITE_P(Catalog, GpuConformance, testing::ValuesIn(cases_with_launches()), name_of_case);

TEST(GpuOperators, EachOneHasACaseThatIsCompared) {
  std::set<std::string_view> covered;
  for (const auto& [index, dtype] : cases_with_launches()) {
    const Case c = conformance_cases()[index];
    auto built = build(c, dtype, true);
    ASSERT_TRUE(built.ok()) << built.error().message;
    for (const Node& node : built->graph.nodes) {
      set_layouts(built->graph, node, Layout::kChannelsLast);
      if (make_gpu_kernel(built->graph, node, {.kernel = {.norm_rows = c.rows}, .most_blocks = kBlocks}).ok()) {
        covered.insert(node.op->name);
      }
    }
  }
  for (const std::string_view name : gpu_operators()) {
    EXPECT_TRUE(covered.contains(name)) << name;
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
