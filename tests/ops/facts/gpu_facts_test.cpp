#include "ops/facts/gpu_facts.h"

#include <gtest/gtest.h>

#include "ops/op.h"
#include "tests/ops/glyphs_module.h"

namespace xrun::ops {
namespace {

const GpuDef& h100() { return *find_gpu("h100"); }

TEST(GpuFacts, TheGlyphModelHasAllKernelsAndTheRatesOfTheVendor) {
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
    const auto module = glyphs_module(128, 50, precision);
    ASSERT_TRUE(module.ok()) << module.error().message;
    const KernelFacts facts = gpu_facts(module->graph, 32, true, false, h100());
    EXPECT_EQ(facts.isa, "h100");
    EXPECT_EQ(facts.bytes_per_second, 3.35e12);
    EXPECT_EQ(facts.call, h100().launch);
    EXPECT_EQ(facts.host_rate, 64e9) << "PCIe of the fifth generation";
    ASSERT_EQ(facts.nodes.size(), module->graph.nodes.size());
    Bytes prepared = 0, block_scratch = 0;
    for (size_t i = 0; i < facts.nodes.size(); ++i) {
      EXPECT_EQ(facts.nodes[i].missing, "");
      block_scratch += facts.nodes[i].block_scratch;
      for (size_t k = 0; k < facts.nodes[i].prepared.size(); ++k) {
        const Value& value = module->graph.value(module->graph.nodes[i].inputs[k]);
        prepared += facts.nodes[i].prepared[k];
        EXPECT_TRUE(facts.nodes[i].prepared[k] == 0 || facts.nodes[i].prepared[k] == value.type.row_elements() * 2);
      }
    }
    EXPECT_GT(block_scratch, 0) << "gradients of batch norms have sums for each row block";
    EXPECT_EQ(prepared > 0, precision == PrecisionMode::kMixedBf16) << "products in f32 read weights as they are";
  }
}

// Facts of operators on a value x [N, 8].
class FactsOfOperators : public ::testing::Test {
 protected:
  void add(std::string_view op, const Attrs& attrs = {}) {
    ASSERT_TRUE(call_op(graph_, *registry().find(op), {x_}, attrs, "a", Span{}).ok());
  }
  KernelFacts on(const GpuDef& gpu, int64_t norm_rows = 8) { return gpu_facts(graph_, norm_rows, true, false, gpu); }

  Graph graph_;
  ValueId x_ = graph_.add_input("x", {.dims = {kBatch, 8}});
};

TEST_F(FactsOfOperators, ANodeWithoutAKernelHasTheReason) {
  add("topk", Attrs({{"k", int64_t{3}}}));
  add("gelu");
  EXPECT_EQ(on(h100()).nodes[0].missing, "`topk` has no kernel of GPUs for any tensors");
  EXPECT_EQ(on(h100()).nodes[1].missing, "");
  EXPECT_NE(on(h100()).digest, on(h100(), 16).digest);
  EXPECT_NE(on(h100()).digest, on(*find_gpu("h200")).digest);
  graph_.value(x_).type.dtype = DType::kF16;
  graph_.value(graph_.nodes[1].outputs[0]).type.dtype = DType::kF16;
  EXPECT_EQ(on(h100()).nodes[1].missing, "`gelu` has no kernel of GPUs for f16 tensors");
}

}  // namespace
}  // namespace xrun::ops
