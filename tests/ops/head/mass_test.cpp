// The share of the softmax over all classes that active classes have (ops/head/mass.h).
#include "ops/head/mass.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>
#include <vector>

#include "tests/ops/head/head_runner.h"

namespace xrun::ops {
namespace {

constexpr int64_t kClasses = 3000;
constexpr int64_t kDim = 24;
constexpr int64_t kRows = 32;
constexpr double kScale = 6;

struct Numbers {
  std::vector<float> features;
  std::vector<float> weights;
  std::vector<int32_t> labels;
};

Numbers numbers(uint64_t seed) {
  Numbers made{.features = std::vector<float>(kRows * kDim), .weights = std::vector<float>(kClasses * kDim)};
  RandomStream(seed, 1).fill_normal(0, made.features);
  RandomStream(seed, 2).fill_normal(0, made.weights);
  for (uint64_t row = 0; row < kRows; ++row) {
    made.labels.push_back(static_cast<int32_t>(RandomStream(seed, 3).below(row, kClasses)));
  }
  made.labels[4] = -1;
  return made;
}

// Computes the share by its definition, in f64.
double naive_share(const Numbers& of, const std::set<int32_t>& active) {
  double share = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    double some = 0;
    double all = 0;
    for (int32_t c = 0; c < kClasses; ++c) {
      double dot = 0;
      double x = 0;
      double w = 0;
      for (int64_t d = 0; d < kDim; ++d) {
        const double a = of.features[static_cast<size_t>(row * kDim + d)];
        const double b = of.weights[static_cast<size_t>(c * kDim + d)];
        dot += a * b;
        x += a * a;
        w += b * b;
      }
      const double e = std::exp(kScale * dot / std::sqrt(x * w));
      all += e;
      some += active.contains(c) ? e : 0;
    }
    share += some / all / kRows;
  }
  return share;
}

TEST(HeadMass, FollowsItsDefinitionForAnyNumberOfShards) {
  constexpr uint64_t kSeed = 9;
  RecordProperty("seed", static_cast<int>(kSeed));
  const Numbers made = numbers(kSeed);
  const ClassBlocks blocks{kClasses, class_block(kClasses, kClasses / 2)};
  ThreadWorkers workers(2);
  for (const int64_t shards : {1, 3}) {
    std::vector<std::vector<RowMass>> masses;
    std::set<int32_t> active;
    for (int64_t r = 0; r < shards; ++r) {
      const HeadShape shape{.blocks = blocks,
                            .dim = kDim,
                            .shard = blocks.rows_of_shard(r, shards),
                            .rows = kRows,
                            .norm_rows = 8,
                            .form = {.cosine = true},
                            .margin = {.scale = kScale},
                            .workers = 2,
                            .active = kClasses / 2,
                            .step_rows = kRows};
      const Block selection(head_selection(shape).total);
      const ActiveClasses chosen = select_classes(shape, made.labels, kSeed, 1, selection.data(), workers);
      active.insert(chosen.classes, chosen.classes + chosen.offsets[blocks.of_rows(shape.shard).size()]);
      const Block prepared(head_prepared_bytes(shape));
      const HeadWeights weights{
          .weight = reinterpret_cast<std::byte*>(const_cast<float*>(made.weights.data()) + shape.shard.begin * kDim),
          .prepared = reinterpret_cast<float*>(prepared.data())};
      HeadPasses(shape, Isa::kAvx2).prepare(weights, workers);
      const Block scratch(head_mass_scratch_bytes(shape));
      masses.emplace_back(kRows);
      HeadMass(shape, Isa::kAvx2)
          .measure({.features = reinterpret_cast<const std::byte*>(made.features.data()),
                    .labels = made.labels.data(),
                    .active = &chosen},
                   weights, masses.back().data(), scratch.data(), workers);
    }
    EXPECT_GE(active.size(), static_cast<size_t>(kClasses / 2));
    EXPECT_NEAR(active_share(masses), naive_share(made, active), 1e-5) << shards << " shards";
  }
}

}  // namespace
}  // namespace xrun::ops
