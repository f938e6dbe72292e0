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
    Bytes prepared = 0;
    for (size_t i = 0; i < facts.nodes.size(); ++i) {
      EXPECT_FALSE(facts.nodes[i].missing) << module->graph.nodes[i].op->name;
      for (size_t k = 0; k < facts.nodes[i].prepared.size(); ++k) {
        const Value& value = module->graph.value(module->graph.nodes[i].inputs[k]);
        prepared += facts.nodes[i].prepared[k];
        EXPECT_TRUE(facts.nodes[i].prepared[k] == 0 || facts.nodes[i].prepared[k] == value.type.row_elements() * 2);
      }
    }
    EXPECT_EQ(prepared > 0, precision == PrecisionMode::kMixedBf16) << "products in f32 read weights as they are";
  }
}

TEST(GpuFacts, OperatorsOfHeadsHaveNoKernelsOfNodes) {
  int on_gpus = 0;
  for (const Op* const op : catalog()) {
    on_gpus += is_on_gpus(op->def.name) ? 1 : 0;
    EXPECT_FALSE(is_on_gpus(op->def.name) && op->cpu == nullptr) << op->def.name;
  }
  EXPECT_GT(on_gpus, 50);
  for (const char* const name : {"conv.dw", "dwconv", "attention.grad", "drop_path", "linear.dx"}) {
    EXPECT_NE(find_op(name), nullptr) << name;
    EXPECT_TRUE(is_on_gpus(name)) << name;
  }
  EXPECT_FALSE(is_on_gpus("embed_bag"));
}

TEST(GpuFacts, AnOperatorWithoutAKernelIsMarked) {
  Graph graph;
  const ValueId x = graph.add_input("x", {.dims = {kBatch, 8}});
  const Attrs three({{"k", int64_t{3}}});
  ASSERT_TRUE(call_op(graph, *registry().find("topk"), {x}, three, "a", Span{}).ok());
  ASSERT_TRUE(call_op(graph, *registry().find("relu"), {x}, {}, "b", Span{}).ok());
  const KernelFacts facts = gpu_facts(graph, 8, true, false, h100());
  EXPECT_TRUE(facts.nodes[0].missing);
  EXPECT_FALSE(facts.nodes[1].missing);
  EXPECT_NE(facts.digest, gpu_facts(graph, 16, true, false, h100()).digest);
  EXPECT_NE(facts.digest, gpu_facts(graph, 8, true, false, *find_gpu("h200")).digest);
}

}  // namespace
}  // namespace xrun::ops
