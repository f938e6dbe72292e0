// The launches of every operator that has them compute what the kernels of the processor compute: the cases of the
// conformance suite, forward and backward, with three row blocks in one list of launches.
#include <set>

#include "tests/ops/gpu/launch/case_runs.h"

namespace xrun::ops::gpu {
namespace {

// Operators whose sums have another order on a GPU, or whose functions are other ones, with the largest relative
// distance for f32. All others have the bits of the processor.
std::optional<double> bound_of(std::string_view op) {
  static const std::map<std::string_view, double> bounds{
      {"linear", 1e-6},
      {"linear.dx", 1e-6},
      {"linear.dw", 1e-6},
      {"matmul", 1e-6},
      {"einsum", 1e-6},
      {"einsum.grad", 1e-6},
      {"einsum.dw", 1e-6},
      {"power", 1e-6},
      {"power.grad", 1e-6},
      {"softmax_ce", 1e-6},
      {"conv", 1e-6},
      {"conv.dx", 1e-6},
      {"conv.dw", 1e-6},
      {"dwconv", 1e-6},
      {"deconv", 1e-6},
      {"deconv.dx", 1e-6},
      {"attention", 1e-6},
      {"attention.grad", 2e-6},
      {"attention.relative", 2e-6},
  };
  const auto at = bounds.find(op);
  return at == bounds.end() ? std::nullopt : std::optional(at->second);
}

class GpuConformance : public testing::TestWithParam<std::tuple<size_t, DType>> {
 protected:
  void SetUp() override {
    if (const JitReport report = open_jit(); report.compiler.empty()) {
      GTEST_SKIP() << "there is no compiler of loops";
    }
  }
};

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

GpuSpec spec_for(const NodeRun& run, Target target, int64_t most_blocks) {
  GpuSpec spec{.op = run.op, .node = run.spec, .target = gpu_target(target), .most_blocks = most_blocks};
  spec.node.compile = true;
  return spec;
}

// The results of a call for each row block, one after the other.
std::vector<Raw> results_of_calls(const NodeRun& all, Target target, ptx::Order order) {
  const auto kernel = make_gpu_kernel(spec_for(all, target, 1));
  std::vector<Operand> results = all.outputs;
  const auto of_block = [](const std::vector<Operand>& operands, size_t b) {
    std::vector<Operand> some = operands;
    for (Operand& operand : some) {
      operand.blocks = {operand.blocks[operand.is_whole() ? 0 : b]};
    }
    return some;
  };
  for (size_t b = 0; b < static_cast<size_t>(all.blocks); ++b) {
    const NodeRun one{.op = all.op,
                      .spec = all.spec,
                      .inputs = of_block(all.inputs, b),
                      .outputs = of_block(results, b),
                      .folded = {}};
    const auto done = run_on_gpu(one, **kernel, target, order);
    for (size_t i = 0; done && i < results.size(); ++i) {
      results[i].blocks[results[i].is_whole() ? 0 : b] = done->outputs[i];
    }
  }
  std::vector<Raw> joined;
  std::ranges::transform(results, std::back_inserter(joined), &Operand::joined);
  return joined;
}

void check_node(const NodeRun& before, const NodeRun& after, Target target, ptx::Order order) {
  SCOPED_TRACE(std::string(before.op->name) + " " + to_text(before.spec.attrs));
  const auto kernel = make_gpu_kernel(spec_for(before, target, kBlocks));
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
  if (bound && before.op->rows == RowProperty::kReduces) {  // the processor has other sums
    EXPECT_TRUE(results->outputs == results_of_calls(before, target, order)) << "a call for each row block differs";
  }
  for (size_t i = 0; i < after.folded.size(); ++i) {
    SCOPED_TRACE("state " + std::to_string(i));
    compare(after.folded[i].type, results->folded[i], after.folded[i].joined(), bound);
  }
}

TEST_P(GpuConformance, LaunchesForAllRowBlocksHaveTheBitsOfTheProcessor) {
  const auto [index, dtype] = GetParam();
  // Kernels for f32 run on the first GPU in a fair order, others on the second one in an unfair order.
  const bool first = dtype == DType::kF32;
  for_each_run(index, dtype, [&](const NodeRun& before, const NodeRun& after) {
    if (has_gpu_kernel(before.op->name)) {
      check_node(before, after, kTargets[first ? 0 : 1], first ? ptx::Order::kFair : ptx::Order::kReversed);
    }
  });
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<size_t, DType>>& info) {
  const auto [index, dtype] = info.param;
  std::string name = conformance_cases()[index].op + "_" + std::to_string(index) + "_" + std::string(name_of(dtype));
  std::ranges::replace(name, '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Catalog, GpuConformance, testing::ValuesIn(cases_with_launches()), name_of_case);

// Calls visit(node, make) for the nodes of all cases; make(n) makes the kernel for at most n row blocks.
template <class Visit>
void for_each_node(const Visit& visit) {
  for (const auto& [index, dtype] : cases_with_launches()) {
    const Case c = conformance_cases()[index];
    auto built = build(c, dtype, true);
    ASSERT_TRUE(built.ok()) << built.error().message;
    for (const Node& node : built->graph.nodes) {
      set_layouts(built->graph, node, Layout::kChannelsLast);
      visit(node, [&](int64_t blocks) {
        return make_gpu_kernel(built->graph, node, {.kernel = {.norm_rows = c.rows}, .most_blocks = blocks});
      });
    }
  }
}

// Plans rely on it (KernelFact::block_scratch).
TEST(GpuOperators, WorkingMemoryGrowsByEqualAmountsWithTheRowBlocks) {
  std::set<std::string_view> grown;
  for_each_node([&](const Node& node, const auto& make) {
    if (const auto one = make(1); one.ok()) {
      const Bytes first = (*one)->scratch_bytes(), more = (*make(2))->scratch_bytes() - first;
      EXPECT_GE(more, 0);
      for (const int64_t blocks : {3, 7, 1000}) {
        EXPECT_EQ((*make(blocks))->scratch_bytes(), first + (blocks - 1) * more) << node.op->name << ", " << blocks;
      }
      if (more > 0) {
        grown.insert(node.op->name);
      }
    }
  });
  EXPECT_TRUE(grown.contains("attention.relative") && grown.contains("bn.grad") && grown.contains("conv.dw"));
}

TEST(GpuOperators, EachOneHasACaseThatIsCompared) {
  std::set<std::string_view> covered;
  for_each_node([&](const Node& node, const auto& make) {
    if (make(kBlocks).ok()) {
      covered.insert(node.op->name);
    }
  });
  for (const std::string_view name : gpu_operators()) {
    EXPECT_TRUE(covered.contains(name)) << name;
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
