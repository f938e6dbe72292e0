#include "ops/facts/facts.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "tests/ops/glyphs_module.h"

namespace xrun::ops {
namespace {

KernelOptions options(int64_t rows) {
  return {.norm_rows = rows, .training = true, .deterministic = true, .isa = detect_isa()};
}

TEST(Facts, EveryNodeOfThePreparedGlyphBackboneHasAKernelAndItsSizes) {
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
    const auto module = glyphs_module(128, 50, precision);
    ASSERT_TRUE(module.ok()) << module.error().message;
    const auto facts = collect_facts(module->graph, 32, true, detect_isa(), true);
    ASSERT_TRUE(facts.ok()) << facts.error().message;
    ASSERT_EQ(facts->nodes.size(), module->graph.nodes.size());
    int prepared = 0;
    for (size_t i = 0; i < facts->nodes.size(); ++i) {
      const Node& node = module->graph.nodes[i];
      EXPECT_TRUE(has_kernel(node)) << node.op->name;
      ASSERT_EQ(facts->nodes[i].prepared.size(), node.inputs.size());
      EXPECT_FALSE(facts->nodes[i].time.has_value());
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (facts->nodes[i].prepared[k] > 0) {
          ++prepared;
          EXPECT_TRUE(module->graph.value(node.inputs[k]).param.valid()) << "only weights are prepared";
        }
      }
    }
    // The 8 convolutions and 2 dense layers have prepared weights in the forward pass, and all of them but the first
    // convolution have prepared weights in the gradient of their input.
    EXPECT_EQ(prepared, 10 + 9);
  }
}

TEST(Facts, TheDigestDependsOnSizesAndNotOnTimes) {
  const auto module = glyphs_module(64, 10, PrecisionMode::kF32);
  ASSERT_TRUE(module.ok());
  const auto a = collect_facts(module->graph, 8, true, detect_isa(), true);
  KernelTimes times;
  const auto b = collect_facts(module->graph, 8, true, detect_isa(), true, &times);
  const auto c = collect_facts(module->graph, 16, true, detect_isa(), true);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a->digest, b->digest);
  EXPECT_NE(a->digest, c->digest);
  EXPECT_TRUE(b->measured);
  EXPECT_GT(b->nodes[0].time, 0);
}

// Facts without times run no kernel, but oneDNN makes kernels only for the processor.
TEST(Facts, GradientsInBf16OnAmxAreSlowerThanForwardProducts) {
  if (detect_isa() < Isa::kAmx) {
    GTEST_SKIP() << "this processor has no AMX";
  }
  const auto works = [](PrecisionMode precision, Isa isa) {
    const auto module = glyphs_module(64, 10, precision).value();
    const auto facts = collect_facts(module.graph, 8, true, isa, true).value();
    std::map<std::string, std::set<double>> all;
    for (size_t i = 0; i < facts.nodes.size(); ++i) {
      all[std::string(module.graph.nodes[i].op->name)].insert(facts.nodes[i].work);
    }
    return all;
  };
  auto amx = works(PrecisionMode::kMixedBf16, Isa::kAmx);
  EXPECT_EQ(amx["conv"], std::set<double>{1});
  EXPECT_EQ(amx["conv.dw"], (std::set<double>{2.2, 4.5})) << "three windows have a stride";
  EXPECT_EQ(amx["conv.dx"], (std::set<double>{1.1, 2.3}));
  EXPECT_EQ(amx["linear.dw"], std::set<double>{3.2});
  EXPECT_EQ(works(PrecisionMode::kMixedBf16, Isa::kAvx512Bf16)["linear.dw"], std::set<double>{1});
  EXPECT_EQ(works(PrecisionMode::kF32, Isa::kAmx)["linear.dw"], std::set<double>{1});
}

TEST(Facts, TheRateOfAHeadIsMeasuredAndPlausible) {
  Graph graph;
  TensorType x;
  x.dims = {kBatch, 64};
  const ValueId id = graph.add_input("x", x);
  ASSERT_TRUE(
      call_op(graph, find_op("cosine_classifier")->def, {id}, {{"classes", int64_t{700}}}, "head", Span{}).ok());
  KernelTimes times;
  const auto facts = collect_facts(graph, 8, true, detect_isa(), true, &times);
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_GT(facts->head_seconds_per_mac, 1e-13);
  EXPECT_LT(facts->head_seconds_per_mac, 1e-8);
}

// Returns a graph with one call on `x`, so that its facts are those of one kernel.
Graph graph_of(const std::string& op, const std::vector<int64_t>& dims, const Attrs& attrs) {
  Graph graph;
  TensorType x;
  x.dims = dims;
  const ValueId id = graph.add_input("x", x);
  XRUN_CHECK(call_op(graph, find_op(op)->def, {id}, attrs, "op", Span{}).ok(), op);
  return graph;
}

TEST(Facts, KnownTimesAreTakenAndNothingIsMeasured) {
  KernelTimes times;
  for (const char* op : {"linear", "cosine_classifier"}) {
    const Attrs attrs = op[0] == 'l' ? Attrs{{"out", int64_t{8}}, {"bias", false}} : Attrs{{"classes", int64_t{70}}};
    const Graph graph = graph_of(op, {kBatch, 64}, attrs);
    ASSERT_TRUE(collect_facts(graph, 8, true, detect_isa(), true, &times).ok());
  }
  ASSERT_EQ(times.size(), 4u) << "a dense layer, its weight, a head, and an update of 4,096 weights";
  for (auto& [kernel, time] : times) {
    EXPECT_FALSE(time.known) << kernel;
    EXPECT_TRUE(time.used) << kernel;
    time = {.seconds = 123, .known = true};
  }
  const KernelTimes before = times;
  const auto dense = collect_facts(graph_of("linear", {kBatch, 64}, {{"out", int64_t{8}}, {"bias", false}}), 8, true,
                                   detect_isa(), true, &times);
  ASSERT_TRUE(dense.ok());
  EXPECT_EQ(dense->nodes[0].time, 123);
  const auto head = collect_facts(graph_of("cosine_classifier", {kBatch, 64}, {{"classes", int64_t{70}}}), 8, true,
                                  detect_isa(), true, &times);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->head_seconds_per_mac, 123);
  EXPECT_EQ(head->bytes_per_second, 1.0 / 123);
  EXPECT_EQ(times.size(), before.size());
}

TEST(Facts, KernelsThatDifferInOnePropertyAreTimedSeparately) {
  KernelTimes times;
  size_t kernels = 1;  // one for the update
  const auto collect = [&](const Graph& graph, int64_t rows, bool training, bool deterministic) {
    ASSERT_TRUE(collect_facts(graph, rows, training, detect_isa(), deterministic, &times).ok());
    EXPECT_EQ(times.size(), ++kernels);
  };
  collect(graph_of("relu", {kBatch, 8}, {}), 8, true, true);
  collect(graph_of("gelu", {kBatch, 8}, {}), 8, true, true);
  collect(graph_of("relu", {kBatch, 9}, {}), 8, true, true);
  collect(graph_of("relu", {kBatch, 8}, {}), 4, true, true);
  collect(graph_of("relu", {kBatch, 8}, {}), 8, false, true);
  collect(graph_of("relu", {kBatch, 8}, {}), 8, true, false);
  collect(graph_of("power", {kBatch, 8}, {{"exponent", 2.0}}), 8, true, true);
  collect(graph_of("power", {kBatch, 8}, {{"exponent", 3.0}}), 8, true, true);
  Graph narrow = graph_of("relu", {kBatch, 8}, {});
  for (Value& value : narrow.values) {
    value.type.dtype = DType::kBF16;
  }
  collect(narrow, 8, true, true);
  Graph image = graph_of("relu", {kBatch, 8, 4, 4}, {});
  collect(image, 8, true, true);
  for (Value& value : image.values) {
    value.type.layout = Layout::kChannelsLast;
  }
  collect(image, 8, true, true);
}

TEST(Facts, TimesOfSeveralThreadsAreOtherTimes) {
  const Graph graph = graph_of("cosine_classifier", {kBatch, 64}, {{"classes", int64_t{70}}});
  KernelTimes times;
  const auto alone = collect_facts(graph, 8, true, detect_isa(), true, &times);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->threads, 1);
  EXPECT_EQ(alone->filling_workers, 0) << "one thread shares no memory";
  EXPECT_EQ(times.size(), 2u);
  const auto both = collect_facts(graph, 8, true, detect_isa(), true, &times, {.count = 2});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->threads, 2);
  EXPECT_GT(both->filling_workers, 0);
  EXPECT_LE(both->filling_workers, 2);
  EXPECT_EQ(both->bytes_per_second, alone->bytes_per_second) << "the rate of one worker alone";
  std::vector<std::string> names;
  for (const auto& [name, time] : times) {
    names.push_back(name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"head of 70 classes, 64 dims, 256 rows, cosine",
                                      "head of 70 classes, 64 dims, 256 rows, cosine, 2 threads",
                                      "update of 4096 weights, a byte", "update of 4096 weights, a byte, 2 threads"}));
}

TEST(Facts, KernelsWithLargeOperandsAreTimedOnFewerThreads) {
  const Graph graph = graph_of("relu", {kBatch, 65'536}, {});  // 512 KiB of operands a row
  const auto last = [&](int64_t rows) {
    KernelTimes times;
    const auto facts = collect_facts(graph, rows, true, detect_isa(), true, &times, {.count = 3, .memory = 2 * kMiB});
    EXPECT_TRUE(facts.ok());
    return std::pair(facts->threads, times.begin()->first);
  };
  EXPECT_EQ(last(1).first, 3);
  EXPECT_TRUE(last(1).second.ends_with(", 3 threads")) << last(1).second;
  EXPECT_EQ(last(2).first, 2);
  EXPECT_TRUE(last(2).second.ends_with(", 2 threads")) << last(2).second;
  EXPECT_EQ(last(8).first, 1);
  EXPECT_EQ(last(8).second.find("threads"), std::string::npos) << last(8).second;
}

// A reshape between channels-last images needs scratch memory; a reshape of row-major tensors does not.
TEST(Facts, NodesWithDifferentLayoutsHaveSeparateFacts) {
  Graph graph = graph_of("reshape", {kBatch, 8, 4, 4}, {{"shape", std::vector<int64_t>{kBatch, 4, 8, 4}}});
  const Node first = graph.nodes[0];
  ASSERT_TRUE(call_op(graph, *first.op, first.inputs, first.attrs, "again", Span{}).ok());
  const auto scratch = [&](bool training) {
    const auto facts = collect_facts(graph, 8, training, detect_isa(), true, nullptr);
    EXPECT_TRUE(facts.ok());
    return std::pair(facts->nodes[0].scratch, facts->nodes[1].scratch);
  };
  EXPECT_EQ(scratch(true), std::pair(Bytes{0}, Bytes{0}));
  const ValueId image = graph.add_input("image", {.dims = {kBatch, 8, 4, 4}, .layout = Layout::kChannelsLast});
  graph.nodes[1].inputs = {image};
  graph.value(graph.nodes[1].outputs[0]).type.layout = Layout::kChannelsLast;
  EXPECT_EQ(scratch(true), std::pair(Bytes{0}, Bytes{512}));
}

// Returns the names of the times that a graph adds.
std::vector<std::string> timed(const Graph& graph, int64_t rows) {
  KernelTimes times;
  XRUN_CHECK(collect_facts(graph, rows, true, detect_isa(), true, &times).ok(), "no facts");
  std::vector<std::string> names;
  for (const auto& [name, time] : times) {
    EXPECT_GT(time.seconds, 0) << name;
    names.push_back(name);
  }
  return names;
}

TEST(Facts, MakingThePreparedFormOfAWeightIsTimed) {
  const auto module = glyphs_module(64, 10, PrecisionMode::kF32);
  ASSERT_TRUE(module.ok());
  KernelTimes times;
  const auto facts = collect_facts(module->graph, 8, true, detect_isa(), true, &times);
  ASSERT_TRUE(facts.ok());
  int forms = 0;
  for (const KernelFact& fact : facts->nodes) {
    for (size_t i = 0; i < fact.prepared.size(); ++i) {
      EXPECT_EQ(i < fact.prepare.size() && fact.prepare[i] > 0, fact.prepared[i] > 0);
      forms += fact.prepared[i] > 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(forms, 10 + 9);
  EXPECT_NE(facts->bytes_per_second, KernelFacts().bytes_per_second);
  EXPECT_GT(facts->bytes_per_second, 1e8);
  EXPECT_LT(facts->bytes_per_second, 1e13);
}

// A row block of 16 MiB or more does not fit into the caches, except for what the previous operator has just written.
TEST(Facts, CallsOfALargeRowBlockAreTimedWithColdCaches) {
  Graph graph;
  TensorType x;
  x.dims = {kBatch, 65'536};
  ValueId id = graph.add_input("x", x);
  for (const char* op : {"relu", "gelu"}) {
    const NodeId node = call_op(graph, find_op(op)->def, {id}, {}, op, Span{}).value();
    id = graph.node(node).outputs[0];
  }
  const auto few = timed(graph, 1);
  EXPECT_TRUE(std::ranges::none_of(few, [](const auto& name) { return name.find("cold") != name.npos; }));
  const auto many = timed(graph, 32);
  ASSERT_EQ(many.size(), 3u);
  EXPECT_TRUE(many[0].starts_with("gelu") && many[0].ends_with(", cold but for inputs 0")) << many[0];
  EXPECT_TRUE(many[1].starts_with("relu") && many[1].ends_with(", cold but for inputs")) << many[1];
  EXPECT_EQ(many[2], "update of 4096 weights, a byte");
}

TEST(Facts, AnOperatorWithoutKernelIsAnErrorThatNamesIt) {
  Graph graph;
  TensorType x;
  x.dims = {kBatch, 4, 8, 8};
  const ValueId id = graph.add_input("x", x);
  constexpr OpDef kLater{.name = "later",
                         .infer = [](std::span<const TensorType> inputs, const Attrs&) -> Result<OpShape> {
                           return OpShape{{inputs[0]}};
                         }};
  const NodeId node = *call_op(graph, kLater, {id}, {}, "pairs", Span{0, 1, 2});
  const auto kernel = make_kernel(graph, graph.node(node), options(4));
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message.find("later"), std::string::npos);
  EXPECT_TRUE(kernel.error().span.valid());
}

}  // namespace
}  // namespace xrun::ops
