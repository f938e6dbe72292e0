#include "planner/program/run_memory.h"

#include <gtest/gtest.h>

#include "graph/settings/save_chunk.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

using testing::glyphs_source;
using testing::source;

using Sources = std::vector<SourceSpec>;

Module module_of(Sources sources) {
  Module module = testing::make_module({.batch = 64});
  module.data.sources = std::move(sources);
  return module;
}

Result<Plan> plan(const Module& module, Bytes memory) {
  const Module training = testing::prepare_training(module);
  const Module inference = testing::prepare_inference(module);
  const Machine machine{.name = "cpu", .cores = 1, .devices = 1, .threads = 1, .memory = memory};
  return make_plan(training, inference, testing::make_facts(training), testing::make_facts(inference), machine, {});
}

RunMemory memory_of(const Module& module) {
  const auto made = plan(module, kGiB);
  EXPECT_TRUE(made.ok());
  return run_memory(module, made->training, made->inference);
}

TEST(RunMemory, MemoryOfEvaluationCountsIfASourceIsMeasured) {
  EXPECT_EQ(memory_of(module_of({source("train", "synthetic")})).evaluation, 0) << "metrics are of the other sources";
  EXPECT_GT(memory_of(module_of({source("train", "synthetic"), source("test", "synthetic")})).evaluation, 0);
  Module module = module_of({source("train", "synthetic"), source("test", "synthetic")});
  module.train.metrics.clear();
  EXPECT_EQ(memory_of(module).evaluation, 0) << "nothing is measured";
  module = module_of({source("train", "synthetic")});
  module.train.eval = {{"fit", module.train.metrics[0].value, "train", {}}};
  EXPECT_GT(memory_of(module).evaluation, 0) << "`eval` names the training source";
}

TEST(RunMemory, OpenReadersWithAKnownSizeAreCounted) {
  constexpr Bytes kOfOneFace = 1000 * (32 * 32 + 4);
  const RunMemory both =
      memory_of(module_of({glyphs_source("train", {"a", "b"}, 32), glyphs_source("test", {"c"}, 32)}));
  EXPECT_EQ(both.readers, 3 * kOfOneFace);
  EXPECT_EQ(both.sum(), both.training + both.evaluation + both.readers);
  EXPECT_TRUE(both.uncounted.empty());
  Module module = module_of({glyphs_source("train", {"a", "b"}, 32), glyphs_source("test", {"c"}, 32)});
  module.train.metrics.clear();
  EXPECT_EQ(memory_of(module).readers, 2 * kOfOneFace) << "nobody opens `test`";
  const RunMemory files = memory_of(module_of({source("train", "csv"), source("test", "synthetic")}));
  EXPECT_EQ(files.readers, 0);
  EXPECT_EQ(files.uncounted, std::vector<std::string>{"train"});
}

// A save in the background needs copies of all weights and states, if they are small, and one chunk each for the worker
// and the background thread.
TEST(RunMemory, MemoryOfBackgroundSavesIsCounted) {
  Module module = module_of({source("train", "synthetic")});
  const RunMemory between = memory_of(module);
  EXPECT_EQ(between.saving, 0);
  module.train.checkpoint_async = true;
  const RunMemory beside = memory_of(module);
  const auto made = plan(module, kGiB);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(beside.saving, 2 * kSaveChunk + save_staging(made->training));
  EXPECT_EQ(beside.sum(), between.sum() + beside.saving);
  EXPECT_GT(save_staging(made->training), 0);
  EXPECT_LE(save_staging(made->training), kSaveStaging);
}

TEST(RunMemory, MemoryOfReadersDecidesWhetherAPlanFits) {
  const Bytes arenas = memory_of(module_of({source("train", "synthetic")})).sum();
  const Module module = module_of({glyphs_source("train", {"a"}, 512)});
  const RunMemory whole = memory_of(module);
  ASSERT_EQ(whole.sum(), arenas + whole.readers);
  const auto fits = plan(module, whole.sum());
  ASSERT_TRUE(fits.ok());
  const Module training = testing::prepare_training(module);
  EXPECT_TRUE(check_fresh(*fits, training, testing::make_facts(training), fits->machine).ok());
  Machine smaller = fits->machine;
  smaller.memory = whole.readers;
  const Status stale = check_fresh(*fits, training, testing::make_facts(training), smaller);
  ASSERT_FALSE(stale.ok());
  EXPECT_EQ(stale.error().code, "XG0625");
  const auto made = plan(module, whole.readers);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0601");
  ASSERT_EQ(made.error().notes.size(), 1U);
  const std::string& note = made.error().notes[0];
  const size_t part = note.find("\nheld by readers, at most ");
  ASSERT_NE(part, std::string::npos) << note;
  EXPECT_LT(note.find("<- largest"), note.find('\n', part + 1)) << note;
}

}  // namespace
}  // namespace xrun::planner
