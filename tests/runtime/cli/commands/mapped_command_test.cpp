// Class rows in a file, from the command line: the plan, the run, commands that read a checkpoint, and a disk without
// space.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string model(const std::string& classes, const std::string& dim) {
  return R"(xgraph 1

model huge {
  input x: f32[N, 16]

  feature = x -> linear(32) -> relu -> linear()" +
         dim + R"()
  output feature

  head id = classifier(feature, )" +
         classes + R"(, bias=false)
}

data made {
  source train = synthetic([16], )" +
         classes + R"(, 64_000)
  source test  = synthetic([16], )" +
         classes + R"(, 100, seed=2)

  x = pixels
}

train rows {
  batch          = 64
  steps          = 12
  norm_rows      = 16
  loss           = softmax_ce(id, label)
  active_classes = sample(2000)
  optimizer      = sgd
  lr             = 0.1
  groups {
    id {
      weights = fp8
      rows    = mapped
    }
  }
  eval { test = accuracy(id, label, source=test) }
  checkpoint { every = 5 steps }
}
)";
}

class MappedCommand : public ::testing::Test {
 protected:
  void write(const std::string& classes, const std::string& dim) {
    directory_.write("huge.xgraph", model(classes, dim));
  }
  CommandResult run(const std::vector<std::string>& words) { return run_xrun(words, {.directory = directory_.path()}); }
  TemporaryDirectory directory_;
};

TEST_F(MappedCommand, DiskSpaceIsPlannedAndRowsAreTrainedAndRead) {
  write("300_000", "8");
  const auto plan = run({"plan", "huge.xgraph"});
  ASSERT_EQ(plan.exit, 0) << plan.err;
  EXPECT_THAT(plan.out,
              HasSubstr("  disk       3.7 MiB next to the checkpoints: rows of id 3.6 MiB, undo log at most "));
  EXPECT_THAT(plan.out, HasSubstr("rows in a file"));
  const auto train = run({"train", "huge.xgraph", "--threads", "2"});
  ASSERT_EQ(train.exit, 0) << train.err;
  const std::string checkpoints = directory_.path() + "/ckpt/rows";
  EXPECT_EQ(std::filesystem::file_size(checkpoints + "/rows.id"), 3'735'552U);
  EXPECT_FALSE(std::filesystem::exists(checkpoints + "/step-000010")) << "older steps have no rows";
  const auto show = run({"show", "ckpt/rows"});
  EXPECT_THAT(show.out, HasSubstr("rows of id in ckpt/rows/rows.id")) << show.err;
  const auto eval = run({"eval", "ckpt/rows"});
  EXPECT_EQ(eval.exit, 0) << eval.err;
  const auto in_memory = run({"eval", "ckpt/rows", "--set", "train.groups.id.rows=memory"});
  EXPECT_EQ(in_memory.exit, 0) << in_memory.err;
  EXPECT_EQ(in_memory.out.substr(in_memory.out.find("test")), eval.out.substr(eval.out.find("test")));
  const auto again = run({"train", "huge.xgraph", "--resume", "never"});
  EXPECT_EQ(again.exit, 1);
  EXPECT_THAT(again.err, HasSubstr("error[XG0722]"));
  const auto anew = run({"train", "huge.xgraph", "--resume", "never", "--overwrite"});
  EXPECT_EQ(anew.exit, 0) << anew.err;
  EXPECT_EQ(run({"eval", "ckpt/rows.1"}).out, eval.out) << "the rows went with the run that was moved";
}

TEST_F(MappedCommand, ADiskWithTooLittleSpaceIsRefusedBeforeTheRun) {
  write("2_000_000_000", "4096");
  const auto train = run({"train", "huge.xgraph"});
  EXPECT_EQ(train.exit, 4) << train.err;
  EXPECT_THAT(train.err, HasSubstr("error[XG0711]"));
  EXPECT_THAT(train.err, HasSubstr("class rows in files need 7636.9 GiB in ckpt/rows, but "));
  EXPECT_THAT(train.err, HasSubstr("rows of `id` 7636.8 GiB, their undo log at most "));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/ckpt"));
}

}  // namespace
}  // namespace xrun::testing
