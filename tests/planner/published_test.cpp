// Figures that others have published for pipelines, and the figures of this planner for the same settings
// (docs/internals/algorithms.md, "Figures of others"). A constant is fitted on at most one row of a table.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "planner/partition/partition.h"
#include "planner/planner.h"
#include "planner/schedules/simulate_schedule.h"
#include "tests/planner/published_amoeba.h"
#include "tests/planner/published_resnet.h"

namespace xrun::planner {
namespace {

using testing::KernelList;

// GPipe's Transformer (Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
// NeurIPS 2019): 1,024 tokens of width 2,048, hidden layers of 8,192, 32 heads, a vocabulary of 32,000.
constexpr int64_t kTokens = 1024;
constexpr int64_t kWidth = 2048;
constexpr int64_t kHidden = 8192;
constexpr int64_t kHeads = 32;
constexpr int64_t kVocabulary = 32'000;
constexpr int64_t kLayerParams = 4 * kWidth * kWidth + 2 * kWidth * kHidden;
constexpr double kLayerFlops = 2.0 * kTokens * (kLayerParams + 2 * kTokens * kWidth);
constexpr double kVocabularyFlops = 2.0 * kTokens * kVocabulary * kWidth;

// Returns the samples that stages with the best cuts process in a unit of time. All layers run again.
double transformer_throughput(int stages, int micro_batches) {
  PartitionRequest request{.stages = stages, .micro_batches = micro_batches, .recompute = Recompute::kAll};
  request.layers.push_back({});  // the table of embeddings
  for (int l = 0; l < 48; ++l) {
    request.layers.push_back({.forward = kLayerFlops, .backward = 2 * kLayerFlops});
  }
  request.layers.push_back({.forward = kVocabularyFlops, .backward = 2 * kVocabularyFlops});
  const Partition cuts = partition(request).at(0);
  ScheduleRequest order{.micro_batches = micro_batches};
  for (const PartitionStage& stage : cuts.stages) {
    order.forward.push_back(stage.forward);
    order.backward.push_back(stage.backward);
  }
  return micro_batches / simulate(schedule_gpipe(order), order).makespan;
}

// Table 2 of GPipe, M = 32, relative to K = 2 and M = 1. Times are proportional to operations and transfers are free,
// so that no constant is fitted.
TEST(Published, GpipeTransformerIsWithinSevenPercent) {
  const double base = transformer_throughput(2, 1);
  for (const auto& [stages, published] : {std::pair(2, 1.8), {4, 3.4}, {8, 6.3}}) {
    const double ours = transformer_throughput(stages, 32) / base;
    RecordProperty("gpipe.K" + std::to_string(stages), std::to_string(ours));
    EXPECT_NEAR(ours / published, 1, 0.07) << stages << " stages: " << ours;
  }
}

// The times of torchgpipe's pipelines (Kim et al., "torchgpipe: On-the-fly Pipeline Parallelism for Training Giant
// Models", 2020; settings and figures in github.com/kakaobrain/torchgpipe, benchmarks/), on Tesla P40.
struct Pipeline {
  std::vector<int> balance;
  int micro_batches = 1;
  int64_t batch = 0;
  double published = 0;  // samples a second
  double ours = 0;       // the same by this planner, over the published figure
  bool plain = false;    // without a pipeline: nothing runs again
};

// A backward pass takes twice the time of the forward pass. All micro-batches run again but the one that is last in the
// forward passes, whose backward pass is the first one; if there is only one, it runs again (`checkpoint` of the
// benchmarks).
double samples_per_second(const std::vector<KernelList>& layers, const Pipeline& one, double efficiency) {
  const KernelFacts facts = testing::facts_of(testing::kP40, efficiency);
  const Machine machine = testing::gpus_of(testing::kP40, static_cast<int>(one.balance.size()));
  const int64_t rows = (one.batch + one.micro_batches - 1) / one.micro_batches;
  const std::vector<Seconds> times = testing::forward_times(layers, rows, CostModel(facts, machine));
  ScheduleRequest order{.micro_batches = one.micro_batches};
  auto at = times.begin();
  for (const int count : one.balance) {
    const Seconds forward = std::accumulate(at, at + count, 0.0);
    at += count;
    order.forward.push_back(forward);
    order.backward.push_back(one.plain ? 2 * forward : 3 * forward);
    order.first.push_back(one.micro_batches > 1 ? -forward : 0.0);
  }
  EXPECT_EQ(at, times.end());
  return static_cast<double>(one.batch) / simulate(schedule_gpipe(order), order).makespan;
}

// Fits the efficiency of the kernels on the first row, and expects the other rows.
void expect_rows(const std::string& name, const std::vector<KernelList>& layers, const std::vector<Pipeline>& rows) {
  const double efficiency = rows[0].published / samples_per_second(layers, rows[0], 1);
  ::testing::Test::RecordProperty(name + ".efficiency", std::to_string(efficiency));
  for (const Pipeline& row : rows) {
    const std::string text = name + ", " + std::to_string(row.balance.size()) + " stages, " +
                             std::to_string(row.micro_batches) + " micro-batches";
    EXPECT_NEAR(samples_per_second(layers, row, efficiency) / row.published, row.ours, 0.006) << text;
  }
}

// The time of launches is not divided by the efficiency, so the first row is reached up to this time.
TEST(Published, TorchgpipeAmoebaNetWith32MicroBatchesIsWithinTenPercent) {
  const std::vector<Pipeline> rows{
      {{7, 17}, 1, 96, 26.733, 1.0},
      {{9, 15}, 4, 256, 41.133, 1.09},
      {{9, 15}, 32, 1280, 47.386, 1.085},
      {{3, 4, 5, 12}, 1, 160, 26.827, 1.0},
      {{3, 6, 7, 8}, 4, 360, 44.543, 1.307},  // not reached: slower than the rows of 2 and of 8 stages allow
      {{3, 6, 7, 8}, 32, 1152, 72.412, 1.07},
      {{2, 2, 2, 2, 2, 3, 4, 7}, 1, 196, 24.918, 1.08},
      {{2, 2, 2, 3, 3, 4, 4, 4}, 4, 480, 70.065, 1.085},
      {{2, 2, 2, 3, 3, 4, 4, 4}, 32, 1280, 132.413, 1.07},
  };
  for (const Pipeline& row : rows) {
    EXPECT_TRUE(row.micro_batches < 32 || std::abs(row.ours - 1) < 0.1);
  }
  expect_rows("amoeba", testing::AmoebaNet(18, 256).layers(), rows);
}

TEST(Published, TorchgpipeResNet101IsWithinElevenPercent) {
  const std::vector<Pipeline> rows{
      {{370}, 1, 118, 95.862, 1.0, true},
      {{370}, 2, 220, 81.796, 1.006},
      {{135, 235}, 1667, 25000, 135.539, 1.02},
      {{44, 92, 124, 110}, 256, 5632, 265.958, 0.984},
      {{26, 22, 33, 44, 44, 66, 66, 69}, 150, 5400, 411.662, 1.105},
  };
  expect_rows("resnet", testing::resnet_layers({3, 4, 23, 3}, 1000), rows);
}

// Table 1 of GPipe: AmoebaNet-D (L, D), of which the table gives the memory as 12 bytes a parameter.
TEST(Published, AmoebaNetHasThePublishedParameters) {
  for (const auto& [cells, filters, published] :
       {std::tuple(18, 416, 318e6), {18, 544, 542e6}, {36, 544, 1.05e9}, {72, 512, 1.8e9}}) {
    const double ours = static_cast<double>(testing::AmoebaNet(cells, filters).params());
    EXPECT_NEAR(ours / published, 1, 0.03) << cells << ", " << filters << ": " << ours;
  }
}

}  // namespace
}  // namespace xrun::planner
