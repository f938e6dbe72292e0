// Output of commands about active classes and their graphs: before a run, in its log, and when it cannot be resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

// A model with 100 steps of 64 samples per epoch.
constexpr const char* kModel = R"(xgraph 1

option classes: int = 500 in 2 .. 1G

model m {
  input x: f32[N, 12]

  feature = x -> linear(16)
  output feature
  head id = cosine_classifier(feature, classes)
}

data d {
  source train = synthetic([12], classes, 6400)
  source test  = synthetic([12], classes, 64, seed=2)

  x = pixels
}

train t {
  batch          = 64
  steps          = 100
  loss           = softmax_ce(id, label, scale=16)
  metrics        = [accuracy(id, label)]
  active_classes = knn(neighbours=8, active=50%, rebuild=20 steps)
  optimizer      = sgd(momentum=0.9)
  lr             = 0.5

  groups {
    id {
      untouched = exact
    }
  }
}
)";

class ActiveCommands : public ::testing::Test {
 protected:
  void SetUp() override { directory.write("m.xgraph", kModel); }
  CommandResult run(Words words) { return run_xrun(words, {.directory = directory.path()}); }
  TemporaryDirectory directory;
};

// On two cores, an exact graph of 100,000 classes takes half a second or more with any instruction set. A step of 64
// samples with 1,000 of these classes takes about a millisecond.
const Words kSlow{"--threads",      "2",     "--set",
                  "classes=100000", "--set", "train.active_classes=knn(neighbours=8, active=1%, rebuild=20 steps)"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(ActiveCommands, PlanPredictsTheTimeOfGraphsAndWarnsIfTheyAreSlow) {
  const CommandResult fast = run({"plan", "m.xgraph", "--dry-run"});
  ASSERT_EQ(fast.exit, 0) << fast.err;
  EXPECT_THAT(fast.out,
              ContainsRegex("graphs     id exact, [0-9.]+ [mu]s a build; one every 20 steps \\([0-9.]+ [mu]s of "
                            "steps\\): [0-9]+ % of the run"));
  const CommandResult slow = run(with({"plan", "m.xgraph", "-o", "m.xplan"}, kSlow));
  ASSERT_EQ(slow.exit, 0) << slow.err;
  EXPECT_THAT(slow.err,
              ContainsRegex("warning.XG0819.: a graph of the nearest classes of `id` takes about [0-9.]+ m?s to "
                            "build, and the steps of `rebuild` \\(20 steps\\) take [0-9.]+ ms"));
  EXPECT_THAT(slow.err,
              AllOf(HasSubstr("train.active_classes:1:1"), HasSubstr("help: write exact=false, which takes")));
  // A plan that was read from a file has the same warning.
  const CommandResult shown = run({"show", "m.xplan"});
  ASSERT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, ContainsRegex("graphs     id exact, [0-9.]+ m?s a build; one every 20 steps"));
}

TEST_F(ActiveCommands, TrainWarnsOfSlowGraphsBeforeTheFirstStep) {
  const CommandResult trained = run(with({"train", "m.xgraph", "--steps", "1", "--progress", "json"}, kSlow));
  ASSERT_EQ(trained.exit, 0) << trained.err;
  const size_t warned = trained.out.find("\"code\":\"XG0819\"");
  ASSERT_NE(warned, std::string::npos) << trained.out;
  EXPECT_LT(warned, trained.out.find("\"t\":\"start\""));
  EXPECT_THAT(trained.out, HasSubstr("takes about"));
}

TEST_F(ActiveCommands, TheLogHasActiveClassesAndGraphs) {
  const CommandResult trained = run({"train", "m.xgraph", "--steps", "45"});
  ASSERT_EQ(trained.exit, 0) << trained.err;
  const CommandResult text = run({"show", "ckpt/t/log.jsonl"});
  ASSERT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("id.active   250 at step 45"), HasSubstr("id.near"), HasSubstr("id.common"),
                              HasSubstr("id.mass")));
  EXPECT_THAT(text.out, HasSubstr("id   used after step 22, built from the weights after step 20   recall 100.0 %"));
  EXPECT_THAT(text.out, HasSubstr("id   used after step 42, built from the weights after step 40"));
  EXPECT_THAT(text.out, Not(HasSubstr("used after step 62")));
}

TEST_F(ActiveCommands, AChangedSettingIsReportedWithItsOldAndNewValue) {
  ASSERT_EQ(run({"train", "m.xgraph", "--steps", "1"}).exit, 0);
  const CommandResult other = run({"train", "m.xgraph", "--set", "train.active_classes=sample(300)", "--set",
                                   "train.groups.id.untouched=as_is", "--set", "train.groups.id.weights=bf16"});
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, HasSubstr("error[XG0701]"));
  EXPECT_THAT(other.err, HasSubstr("`train.active_classes` was knn(neighbours=8, active=50%, rebuild=20 steps, "
                                   "exact=true), and is sample(300) now"));
  EXPECT_THAT(other.err, HasSubstr("`train.groups.id.untouched` was exact, and is as_is now"));
  EXPECT_THAT(other.err, HasSubstr("`train.groups.id.weights` was not set, and is bf16 now"));
}

}  // namespace
}  // namespace xrun::testing
