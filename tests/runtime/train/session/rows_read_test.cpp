// The rows of a batch that a process reads: those that its own devices need.
#include "runtime/train/session/rows_read.h"

#include <gtest/gtest.h>
#include <map>

#include "runtime/device/cpu/cpu_device.h"
#include "tests/runtime/runs/plan_product.h"

namespace xrun::runtime {
namespace {

using testing::PlanChoice;

// Returns the rows of the inputs `x` and `label` that each rank reads.
std::vector<std::map<std::string, RowRange>> read_by_ranks(const PlanChoice& choice, int ranks) {
  const testing::Prepared prepared = testing::prepare_for(testing::make_module(testing::hard_model()));
  auto made = testing::make_program(prepared, choice);
  EXPECT_TRUE(made.ok());
  planner::Program program = std::move(made).value();
  program.ranks = ranks;
  std::vector<std::map<std::string, RowRange>> all;
  for (int rank = 0, first = 0; rank < ranks; ++rank) {
    std::vector<int> threads;
    for (int d = first; d < program.devices && program.rank_of(d) == rank; ++d) {
      threads.push_back(program.threads[static_cast<size_t>(d)]);
    }
    const auto devices = make_cpu_devices(threads, {}, first);
    const auto memory = BoundMemory::map(program, *devices);
    EXPECT_TRUE(memory.ok());
    const Graph& graph = prepared.module.graph;
    const std::vector<RowRange> rows = rows_read(graph, program, *memory);
    auto& mine = all.emplace_back();
    for (size_t i = 0; i < rows.size(); ++i) {
      mine[graph.inputs[i].name] = rows[i];
    }
    first += static_cast<int>(threads.size());
  }
  return all;
}

const int64_t kBatchRows = testing::hard_model().batch;

TEST(RowsRead, OneProcessReadsTheWholeBatch) {
  const auto rows = read_by_ranks({.devices = 2, .stages = 2, .micro_batches = 2, .shards = 2}, 1);
  EXPECT_EQ(rows[0].at("x"), (RowRange{0, kBatchRows}));
  EXPECT_EQ(rows[0].at("label"), (RowRange{0, kBatchRows}));
}

TEST(RowsRead, TheFirstStageReadsTheSamplesAndEveryShardTheLabels) {
  const auto rows = read_by_ranks({.devices = 2, .stages = 2, .micro_batches = 2, .shards = 2}, 2);
  EXPECT_EQ(rows[0].at("x"), (RowRange{0, kBatchRows}));
  EXPECT_EQ(rows[1].at("x"), (RowRange{0, 0}));
  EXPECT_EQ(rows[0].at("label"), (RowRange{0, kBatchRows}));
  EXPECT_EQ(rows[1].at("label"), (RowRange{0, kBatchRows}));
}

TEST(RowsRead, AReplicaReadsItsOwnSamples) {
  const auto rows = read_by_ranks({.devices = 2, .replicas = 2, .micro_batches = 2, .shards = 2}, 2);
  EXPECT_EQ(rows[0].at("x"), (RowRange{0, kBatchRows / 2}));
  EXPECT_EQ(rows[1].at("x"), (RowRange{kBatchRows / 2, kBatchRows}));
}

}  // namespace
}  // namespace xrun::runtime
