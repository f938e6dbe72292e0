// The partition counts the bytes and the time of each chosen layer by itself. These tests compare its sums with what
// the layers of a stage need together.
#include "planner/search/remat.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "graph/base/random.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

const Machine kMachine{.name = "2 x cpu", .cores = 2, .devices = 2, .threads = 2, .memory = kGiB};

struct Made {
  explicit Made(const testing::ModelOptions& options)
      : module(testing::prepare_training(testing::make_module(options))),
        facts(testing::make_facts(module)),
        chain(make_chain(module, CostModel(facts, kMachine))) {}
  Module module;
  KernelFacts facts;
  Chain chain;
};

// The values of its own layers that a stage keeps for its backward pass if it runs the nodes at the positions `again`
// again: those that its backward nodes or these nodes read.
std::set<ValueId> kept_values(const Made& made, int begin, int end, const std::vector<bool>& again) {
  std::set<ValueId> kept;
  const Graph& graph = made.module.graph;
  const Chain& chain = made.chain;
  const auto read = [&](NodeId node) {
    for (const ValueId id : graph.node(node).inputs) {
      const NodeId producer = graph.value(id).producer;
      const bool forward = producer.valid() && graph.node(producer).phase == Phase::kForward;
      const int at = forward ? chain.position[static_cast<size_t>(producer.index)] : -1;
      if (at >= begin && at < end && !again[static_cast<size_t>(at)]) {
        kept.insert(id);
      }
    }
  };
  for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end); ++p) {
    std::ranges::for_each(chain.backward[p], read);
    if (again[p]) {
      read(chain.nodes[p]);
    }
  }
  return kept;
}

// The bytes of a row block that a stage keeps of the values that its own layers make.
Bytes own_bytes(const Made& made, int begin, int end, const std::vector<bool>& again) {
  const Graph& graph = made.module.graph;
  const int64_t g = made.module.train.norm_rows;
  Bytes sum = 0;
  for (const ValueId id : kept_values(made, begin, end, again)) {
    sum += graph.value(id).type.bytes(g, g);
  }
  return sum;
}

const std::vector<testing::ModelOptions> kModels{{.layers = 6},
                                                 {.layers = 6, .norm = false},
                                                 {.layers = 6, .skips = true},
                                                 {.layers = 5, .norm = false, .skips = true},
                                                 {.layers = 4, .head = true, .skips = true},
                                                 {.layers = 4, .random = true},
                                                 {.layers = 6, .tied = 2},
                                                 {.layers = 5, .skips = true, .precision = PrecisionMode::kMixedBf16}};

TEST(Remat, ChosenLayersFreeTheirBytesInTheirTime) {
  int freeing = 0;
  int with_others = 0;
  for (size_t m = 0; m < kModels.size(); ++m) {
    const Made made(kModels[m]);
    const Chain& chain = made.chain;
    const int n = chain.size();
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      const RandomStream stream(seed, m);
      const int begin = seed % 2 == 0 ? 0 : static_cast<int>(stream.below(0, static_cast<uint64_t>(n) / 2));
      const int end = n - static_cast<int>(seed % 3 == 0 ? stream.below(1, static_cast<uint64_t>(n) / 3) : 0);
      std::vector<int> chosen;
      Bytes estimated = 0;  // sum over the layers that are not chosen
      Seconds most = 0;
      for (int l = begin; l < end; ++l) {
        const auto p = static_cast<size_t>(l);
        if (chain.saved[p] > 0 && stream.below(2 + p, 3) == 0) {
          chosen.push_back(l);
          most += chain.forward_time[p] + chain.inputs_again_time[p];
        } else {
          estimated += chain.saved[p];
        }
      }
      const std::vector<bool> again = rematerialized(made.module.graph, chain, begin, end, chosen);
      Seconds time = 0;
      for (int l = begin; l < end; ++l) {
        time += again[static_cast<size_t>(l)] ? chain.forward_time[static_cast<size_t>(l)] : 0;
      }
      EXPECT_LE(own_bytes(made, begin, end, again), estimated) << "model " << m << ", seed " << seed;
      EXPECT_LE(time, most * (1 + 1e-9)) << "model " << m << ", seed " << seed;
      freeing += chosen.empty() ? 0 : 1;
      with_others += std::ranges::count(again, true) > std::ssize(chosen) ? 1 : 0;
    }
  }
  EXPECT_GT(freeing, 200);
  EXPECT_GT(with_others, 50);
}

// A layer that runs alone takes the time that the partition counts for it, with the layers before it whose results are
// not kept.
TEST(Remat, TheTimeOfOneLayerIsExact) {
  int longer = 0;
  for (const testing::ModelOptions& options : kModels) {
    const Made made(options);
    const Chain& chain = made.chain;
    for (int l = 0; l < chain.size(); ++l) {
      const auto p = static_cast<size_t>(l);
      const std::vector<bool> again = rematerialized(made.module.graph, chain, 0, chain.size(), {l});
      Seconds time = 0;
      for (size_t i = 0; i < again.size(); ++i) {
        time += again[i] ? chain.forward_time[i] : 0;
      }
      if (chain.saved[p] > 0) {
        EXPECT_NEAR(time, chain.forward_time[p] + chain.inputs_again_time[p], 1e-9 * time) << l;
        longer += chain.inputs_again_time[p] > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(longer, 10);
}

}  // namespace
}  // namespace xrun::planner
