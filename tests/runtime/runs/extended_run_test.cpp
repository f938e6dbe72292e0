// Runs that are resumed with other settings, that start from another run's checkpoint, or that have `best` and
// `stop_when`.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ExtendedRun : public ::testing::Test {
 protected:
  void SetUp() override { write(""); }
  // Writes a model with twenty steps per epoch. `more` holds lines of `train`.
  void write(const std::string& more, int classes = 5, const std::string& activation = "relu") {
    directory.write("m.xgraph", R"(xgraph 1

model m {
  input x: f32[N, 6]

  logits = x -> linear(12) -> )" + activation +
                                    " -> linear(" + std::to_string(classes) + R"() as fc
  output logits
}

data d {
  source train = synthetic([6], )" + std::to_string(classes) +
                                    R"(, 640)
  source test  = synthetic([6], )" + std::to_string(classes) +
                                    R"(, 200, seed=2)

  x     = pixels
  label = label -> as_index()" + std::to_string(classes) +
                                    R"()
}

train t {
  batch     = 32
  norm_rows = 8
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  eval {
    every = 1 epoch
    yen   = accuracy(logits, label, source=test)
  }
)" + more + "\n}\n");
  }
  CommandResult run(std::vector<std::string> words) { return run_xrun(words, {.directory = directory.path()}); }
  CommandResult train(std::vector<std::string> more = {}, const std::string& epochs = "2",
                      const std::string& lr = "0.1") {
    std::vector<std::string> words{"train", "m.xgraph",      "--progress", "json", "--set", "train.epochs=" + epochs,
                                   "--set", "train.lr=" + lr};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  static std::vector<nlohmann::json> events(const CommandResult& result, const std::string& kind) {
    std::vector<nlohmann::json> found;
    std::string line;
    for (std::istringstream in(result.out); std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("t") == kind) {
        found.push_back(event);
      }
    }
    return found;
  }
  std::string at(const std::string& name) const { return directory.path() + "/" + name; }
  bool has_step(int step) const {
    return fs::exists(at("ckpt/t/step-" + std::string(6 - std::to_string(step).size(), '0') + std::to_string(step)));
  }
  TemporaryDirectory directory;
};

TEST_F(ExtendedRun, ChangedSettingsAreNamedInTheError) {
  ASSERT_EQ(train().exit, 0);
  const auto longer = train({}, "4", "cosine(0.1 .. 0)");
  EXPECT_EQ(longer.exit, 1);
  EXPECT_THAT(longer.err,
              AllOf(HasSubstr("error[XG0701]"), HasSubstr("`train.epochs` was 2 epochs, and is 4 epochs now"),
                    HasSubstr("`train.lr` was [constant(0.1)], and is [cosine(0.1 .. 0)] now"),
                    HasSubstr("continue with the new length, rate and classes: --extend")));
  const auto seed = train({"--set", "train.seed=7"});
  EXPECT_EQ(seed.exit, 1);
  EXPECT_THAT(seed.err, AllOf(HasSubstr("`train.seed` was 1, and is 7 now"), Not(HasSubstr("--extend"))));
  EXPECT_EQ(train({"--set", "train.seed=7", "--extend"}).exit, 1) << "only length and rate may differ";
  write("", 5, "gelu");
  EXPECT_THAT(train().err, AllOf(HasSubstr("the model or its loss differs"), HasSubstr("here:        gelu: gelu")));
}

TEST_F(ExtendedRun, ContinuesWithANewLengthAndRateAndKeepsItsHistory) {
  ASSERT_EQ(train().exit, 0);
  const auto longer = train({"--extend"}, "4", "0.05");
  ASSERT_EQ(longer.exit, 0) << longer.err;
  EXPECT_EQ(events(longer, "resume").at(0)["step"], 40);
  EXPECT_EQ(events(longer, "end").at(0)["step"], 80);
  EXPECT_EQ(events(longer, "step").back()["lr"], 0.05);
  // From now on the extended length belongs to the run: no flag is needed, and later saves keep it.
  EXPECT_EQ(train({}, "4", "0.05").exit, 0);
  ASSERT_EQ(train({"--extend"}, "5", "0.05").exit, 0);
  const auto shown = nlohmann::json::parse(run({"show", "ckpt/t", "--format", "json"}).out);
  ASSERT_EQ(shown["history"].size(), 2u);
  EXPECT_EQ(shown["history"][0]["until"], 40);
  EXPECT_EQ(shown["history"][0]["changes"][0], "`train.epochs` was 2 epochs, and is 4 epochs now");
  EXPECT_EQ(shown["history"][1]["until"], 80);
  EXPECT_THAT(run({"show", "ckpt/t"}).out,
              HasSubstr("  until step 80   `train.epochs` was 4 epochs, and is 5 epochs now\n"));
  EXPECT_FALSE(has_step(20)) << "steps from before it was extended are its own, and are pruned";
  const auto shorter = train({"--extend"}, "1", "0.05");
  EXPECT_EQ(shorter.exit, 1);
  EXPECT_THAT(shorter.err, AllOf(HasSubstr("error[XG0815]"), HasSubstr("has done 100 steps")));
}

TEST_F(ExtendedRun, BeginsFromADenseModelOfOtherClasses) {
  ASSERT_EQ(train().exit, 0);
  write("", 9);
  const auto more = train({"-C", "more", "--set", R"(train.init=checkpoint("ckpt/t"))"});
  ASSERT_EQ(more.exit, 0) << more.err;
  EXPECT_THAT(more.out, AllOf(HasSubstr("the layer `fc`: 5 of 9 classes are in"), Not(HasSubstr("`linear`"))));
  // With the same classes no layer is new, except for skipped layers.
  write("");
  const auto same = train({"-C", "same", "--steps", "0", "--set", R"(train.init=checkpoint("ckpt/t"))"});
  const auto skip = train({"-C", "skip", "--steps", "0", "--set", R"(train.init=checkpoint("ckpt/t", skip=[fc]))"});
  const auto all =
      train({"-C", "all", "--steps", "0", "--set", R"(train.init=checkpoint("ckpt/t", skip=[linear, fc]))"});
  const auto seed = train({"-C", "seed", "--steps", "0"});
  const auto digest = [](const CommandResult& result) { return events(result, "end").at(0)["weights"]; };
  EXPECT_EQ(digest(same), events(train(), "end").at(0)["weights"]);
  EXPECT_NE(digest(skip), digest(same));
  EXPECT_NE(digest(skip), digest(all));
  EXPECT_EQ(digest(all), digest(seed));
  const auto unknown = train({"-C", "x", "--set", R"(train.init=checkpoint("ckpt/t", skip=[fd]))"});
  EXPECT_EQ(unknown.exit, 1);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean `fc`?"));
}

TEST_F(ExtendedRun, AChangedInnerLayerIsRefusedWithAdviceToSkipIt) {
  ASSERT_EQ(train().exit, 0);
  std::string text = read_file(at("m.xgraph"));
  text.replace(text.find("linear(12)"), 10, "linear(13)");
  directory.write("m.xgraph", text);
  const auto other = train({"-C", "other", "--set", R"(train.init=checkpoint("ckpt/t"))"});
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, AllOf(HasSubstr("XG0702"), HasSubstr("skip=[linear]")));
}

TEST_F(ExtendedRun, AMissingInitCheckpointIsReportedBeforeTraining) {
  const std::string init = R"(train.init=checkpoint("nowhere"))";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"plan", "m.xgraph"}, {"check", "--data", "m.xgraph"}}) {
    auto all = words;
    for (const std::string word : {"--set", "train.epochs=2", "--set", "train.lr=0.1", "--set"}) {
      all.push_back(word);
    }
    all.push_back(init);
    const auto result = run(all);
    EXPECT_EQ(result.exit, 1) << words[0];
    EXPECT_THAT(result.err, AllOf(HasSubstr("error[XG0713]: no checkpoint at nowhere"), HasSubstr("\"nowhere\"")));
  }
}

TEST_F(ExtendedRun, TheBestCheckpointsAreKeptWithTheLast) {
  write("  checkpoint {\n    keep = 1\n    best = highest(yen, 2)\n  }");
  const auto trained = train({}, "8", "[constant(0.1, 2 epochs), constant(3, 6 epochs)]");
  ASSERT_EQ(trained.exit, 0) << trained.err;
  std::vector<std::pair<double, int>> values;
  for (const auto& eval : events(trained, "eval")) {
    values.emplace_back(-eval["metrics"]["yen"].get<double>(), eval["step"].get<int>());
  }
  ASSERT_EQ(values.size(), 8u);
  std::ranges::sort(values);
  for (int step = 20; step <= 160; step += 20) {
    const bool best = step == values[0].second || step == values[1].second;
    EXPECT_EQ(has_step(step), best || step == 160) << step;
  }
  const std::string best = read_file(at("ckpt/t/best"));
  EXPECT_THAT(best, ::testing::StartsWith("step-" + std::string(values[0].second < 100 ? "0000" : "000") +
                                          std::to_string(values[0].second) + " "));
  EXPECT_EQ(std::count(best.begin(), best.end(), '\n'), 2);
  const auto measured = nlohmann::json::parse(run({"eval", "ckpt/t/best", "--format", "json"}).out);
  EXPECT_EQ(measured["metrics"]["yen"], -values[0].first);
  EXPECT_THAT(run({"show", "ckpt/t"}).out, HasSubstr("  highest yen   "));
}

// A resumed run continues with the best steps of its checkpoint.
TEST_F(ExtendedRun, AResumedRunKeepsTheRecordsOfItsBestSteps) {
  write("  checkpoint {\n    keep = 1\n    best = highest(yen, 2)\n  }");
  const std::string rate = "[constant(0.1, 2 epochs), constant(3, 6 epochs)]";
  ASSERT_EQ(train({"-C", "whole"}, "8", rate).exit, 0);
  for (const std::string steps : {"40", "70", "120", "160"}) {
    ASSERT_EQ(train({"-C", "parts", "--steps", steps}, "8", rate).exit, 0);
  }
  EXPECT_EQ(read_file(at("parts/ckpt/t/best")), read_file(at("whole/ckpt/t/best")));
}

TEST_F(ExtendedRun, EndsWhenAMetricIsGoodEnough) {
  write("  stop_when = yen >= 1%");
  const auto stopped = train({}, "8");
  ASSERT_EQ(stopped.exit, 0) << stopped.err;
  ASSERT_EQ(events(stopped, "stop").size(), 1u);
  EXPECT_EQ(events(stopped, "stop")[0]["step"], 20);
  EXPECT_THAT(events(stopped, "stop")[0]["reason"].get<std::string>(), HasSubstr("and stop_when = yen >= 1%"));
  EXPECT_EQ(events(stopped, "end")[0]["step"], 20);
  EXPECT_TRUE(has_step(20));
  const auto again = train({}, "8");
  EXPECT_EQ(again.exit, 0);
  EXPECT_EQ(events(again, "end")[0]["step"], 20) << "nothing has changed";
  const auto shown =
      run({"train", "m.xgraph", "--progress", "tty", "--set", "train.epochs=8", "--set", "train.lr=0.1"});
  EXPECT_THAT(shown.err, HasSubstr("  Stopped   step 20: yen is "));
  const auto plain =
      run({"train", "m.xgraph", "--progress", "plain", "--set", "train.epochs=8", "--set", "train.lr=0.1"});
  EXPECT_THAT(plain.err, HasSubstr(" stop step=20 reason=\"yen is "));
}

TEST_F(ExtendedRun, EndsWhenAMetricStopsImproving) {
  write("  stop_when = plateau(yen, 3 epochs)");
  // The learning rate is almost 0, so the first evaluation stays the best.
  const auto stopped = train({}, "20", "1e-12");
  ASSERT_EQ(stopped.exit, 0) << stopped.err;
  EXPECT_EQ(events(stopped, "end")[0]["step"], 80);
  EXPECT_THAT(events(stopped, "stop")[0]["reason"].get<std::string>(),
              AllOf(HasSubstr("yen was best at step 20"), HasSubstr("stop_when = plateau(yen, 3 epochs)")));
  ASSERT_EQ(train({"-C", "parts", "--steps", "50"}, "20", "1e-12").exit, 0);
  EXPECT_EQ(events(train({"-C", "parts"}, "20", "1e-12"), "end")[0]["step"], 80) << "a run that goes on knows the best";
}

TEST_F(ExtendedRun, MetricsThatNothingMeasuresAreRefused) {
  const auto refused = [&](const std::string& more) {
    write(more);
    return run({"check", "m.xgraph", "--set", "train.epochs=2", "--set", "train.lr=0.1"}).err;
  };
  EXPECT_THAT(refused("  stop_when = yan >= 99%"), AllOf(HasSubstr("no evaluation gives `yan`"), HasSubstr("yen")));
  EXPECT_THAT(refused("  checkpoint { best = highest(loss) }"), HasSubstr("no evaluation gives `loss`"));
  EXPECT_THAT(refused("  checkpoint { best = yen }"),
              HasSubstr("`best` is highest(METRIC, keep) or lowest(METRIC, keep)"));
  EXPECT_THAT(refused("  checkpoint { best = highest(yen, 0) }"), HasSubstr("`keep` cannot be 0"));
  EXPECT_THAT(refused("  stop_when = plateau(yen, 3)"), HasSubstr("expects a span of training"));
  EXPECT_THAT(refused("  stop_when = plateau(yen)"), HasSubstr("`stop_when` is plateau(METRIC, SPAN)"));
  EXPECT_THAT(refused("  stop_when = yen >= 3 epochs"), HasSubstr("a metric is compared with a number"));
  EXPECT_EQ(refused("  stop_when = none\n  checkpoint { best = none }"), "");
}

}  // namespace
}  // namespace xrun::testing
