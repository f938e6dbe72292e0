// Whole texts of errors that only data, a plan or a checkpoint can cause. They point to the text that must change.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"
#include "tests/support/golden.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;

class Refusal : public ::testing::Test {
 protected:
  // Copies a file of tests/golden/refusals to the test's directory, with the name `as` if it is given.
  void take(const std::string& name, const std::string& as = {}) {
    directory_.write(as.empty() ? name : as, test::read_source_file("tests/golden/refusals/" + name));
  }
  void picture(const std::string& path) {
    fs::create_directories(fs::path(directory_.path() + "/" + path).parent_path());
    directory_.write(path, "its name is enough");
  }
  void model(const std::string& text) { directory_.write("m.xgraph", text); }
  CommandResult run(const std::vector<std::string>& words) {
    return run_xrun(words, {.directory = directory_.path(), .environment = {{"XRUN_ISA", "avx2"}}});
  }
  void expect(const std::vector<std::string>& words, int exit, const std::string& golden) {
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit, exit) << result.out;
    EXPECT_TRUE(test::matches_golden(result.err, "refusals/" + golden));
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(Refusal, TooManyClassesAreShownAtTheNumberOfTheHeadAndAtTheSource) {
  take("labels.xgraph");
  for (const char* path : {"pictures/a/1.png", "pictures/b/1.png", "pictures/b/2.png", "pictures/c/1.png"}) {
    picture(path);
  }
  expect({"check", "--data", "labels.xgraph"}, 1, "labels.txt");
  expect({"train", "labels.xgraph", "--progress", "none"}, 1, "labels.txt");
  // If the number was set on the command line, the fix is a change of the command line.
  expect({"check", "--data", "labels.xgraph", "--set", "classes=2"}, 1, "labels_flag.txt");
}

TEST_F(Refusal, MicroBatchesThatSplitRowBlocksAreShownWithTheCause) {
  take("cells.xgraph");
  take("cells-8.xgraph");
  expect({"plan", "cells-8.xgraph", "--devices", "1"}, 1, "cells-8.txt");
  expect({"plan", "cells-8.xgraph", "--devices", "1", "--set", "schedule.micro_batches=3"}, 1, "cells-8_thirds.txt");
}

TEST_F(Refusal, ATensorThatTheCheckpointLacksIsShownWhereItWasRenamed) {
  take("renamed.xgraph", "m.xgraph");
  const auto trained = run({"train", "m.xgraph", "--steps", "1", "--progress", "none"});
  ASSERT_EQ(trained.exit, 0) << trained.err;
  const std::string before = test::read_source_file("tests/golden/refusals/renamed.xgraph");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = before;
    text.replace(text.find(from), from.size(), to);
    model(text);
  };
  // The operator has got a label, a label was removed, a label in a block has changed, or there is another layer.
  with("linear(8) -> relu", "linear(8) as stem -> relu");
  expect({"eval", "m.xgraph", "ckpt/once/latest"}, 1, "renamed_label.txt");
  with("linear(6) as embed", "linear(6)");
  expect({"eval", "m.xgraph", "ckpt/once/latest"}, 1, "renamed_without.txt");
  with("wide as first", "wide as zeroth");
  expect({"eval", "m.xgraph", "ckpt/once/latest"}, 1, "renamed_block.txt");
  with("linear(8) -> relu", "linear(9) -> relu");
  expect({"eval", "m.xgraph", "ckpt/once/latest"}, 1, "renamed_shape.txt");
}

}  // namespace
}  // namespace xrun::testing
