// `xrun simulate --wall`: plans that run by the clock. Times are never compared with upper bounds, since a busy machine
// may delay any thread.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cases/lab_cluster.h"
#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Wall : public ::testing::Test {
 protected:
  Wall() {
    const std::string model = tiny_model();
    at.write("m.xgraph", model.substr(0, model.find("\ntest ")));  // the test of the file counts its 37 classes
    at.write("lab.xgraph", kLabCluster);
  }
  CommandResult run(Words words) const {
    return run_xrun(words, {.directory = at.path(), .environment = {{"XRUN_ISA", "avx2"}}});
  }
  CommandResult wall(const Words& flags) const {
    Words words{"simulate", "m.xgraph", "--cluster", "lab.xgraph", "--wall"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words);
  }
  Json document(Words flags) const {
    flags.insert(flags.end(), {"--format", "json"});
    const CommandResult result = wall(flags);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.exit == 0 ? Json::parse(result.out) : Json();
  }
  void refused(const Words& words, const Words& parts) const {
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit, 2) << result.out << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts) {
      EXPECT_THAT(result.err, HasSubstr(part));
    }
  }

  TemporaryDirectory at;
};

TEST_F(Wall, StepsTakeAtLeastTheTimesOfTheirComputations) {
  for (const char* pipeline : {"gpipe", "one_f_one_b"}) {
    const Json all =
        document({"--set", "schedule.stages=4", "--set", "schedule.micro_batches=4", "--set",
                  std::string("schedule.pipeline=") + pipeline, "--devices", "4", "--slow", "100", "--steps", "3"});
    ASSERT_TRUE(all.is_object());
    EXPECT_EQ(all["stages"], 4);
    EXPECT_EQ(all["pipeline"], pipeline);
    EXPECT_EQ(all["slow"], 100);
    ASSERT_EQ(all["steps"].size(), 3U);
    ASSERT_EQ(all["devices"].size(), 4U);
    const double predicted = all["predicted_seconds"].get<double>();
    for (const Json& step : all["steps"]) {
      EXPECT_EQ(step["predicted_with_noise_seconds"], predicted) << "there is no noise";
      for (const Json& device : all["devices"]) {
        EXPECT_GE(step["wall_seconds"].get<double>(), device["predicted_busy"].get<double>() * predicted);
      }
    }
    EXPECT_THAT(all["simulated"].get<std::string>(), HasSubstr("no kernel runs"));
  }
}

TEST_F(Wall, NoiseIsThatOfTheSeed) {
  const auto simulated = [&](const Words& flags) {
    Words words{"--devices", "2", "--steps", "2", "--slow", "1", "--noise", "5%"};
    words.insert(words.end(), flags.begin(), flags.end());
    return document(words)["predicted_with_noise_seconds"];
  };
  EXPECT_EQ(simulated({"--seed", "9"}), simulated({"--seed", "9"}));
  EXPECT_NE(simulated({"--seed", "9"}), simulated({"--seed", "10"}));
  EXPECT_EQ(simulated({}), simulated({"--seed", "1"})) << "the default";
}

TEST_F(Wall, TextSaysThatItIsSimulatedAndPrintsTheSeed) {
  const CommandResult text = wall({"--devices", "2", "--steps", "2", "--slow", "1", "--noise", "5%", "--seed", "9"});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("by the clock: tiny on "));
  for (const char* part : {"instructions sleep and links between nodes are token buckets; no kernel runs", "--seed 9",
                           "predicted with the noise", "busy: predicted"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  EXPECT_THAT(text.err, HasSubstr("2 steps by the clock: about "));
}

TEST_F(Wall, TakesAPlanFile) {
  // The plan file has the cluster of its model, so its nodes are those of the model's plan.
  const CommandResult plan = run({"plan", "m.xgraph", "--devices", "2", "-o", "m.xplan"});
  ASSERT_EQ(plan.exit, 0) << plan.err;
  const Words flags{"--wall", "--steps", "1", "--slow", "1", "--format", "json"};
  Words words{"simulate", "m.xplan"};
  words.insert(words.end(), flags.begin(), flags.end());
  const CommandResult of_plan = run(words);
  ASSERT_EQ(of_plan.exit, 0) << of_plan.err;
  words = {"simulate", "m.xgraph", "--devices", "2"};
  words.insert(words.end(), flags.begin(), flags.end());
  const CommandResult of_model = run(words);
  ASSERT_EQ(of_model.exit, 0) << of_model.err;
  EXPECT_EQ(Json::parse(of_plan.out)["predicted_seconds"], Json::parse(of_model.out)["predicted_seconds"]);
  EXPECT_EQ(Json::parse(of_plan.out)["instructions"], Json::parse(of_model.out)["instructions"]);
}

TEST_F(Wall, ResultsGoToAFileThatIsOfTheirKind) {
  const Words once{"--devices", "2", "--steps", "1", "--slow", "1", "-o", "wall.txt"};
  for (int i = 0; i < 2; ++i) {
    const CommandResult result = wall(once);
    EXPECT_EQ(result.exit, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("wrote wall.txt"));
  }
  const CommandResult other = wall({"-o", "m.xgraph", "--steps", "1"});
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, HasSubstr("error[XG0901]: `m.xgraph` exists"));
}

TEST_F(Wall, FlagsThatDoNotGoTogetherAreRefused) {
  refused({"simulate", "m.xgraph", "--wall", "--sweep", "nodes=1,2"},
          {"error[XG0641]: `--wall` runs one plan, and `--sweep` makes several", "--set KEY=VALUE"});
  refused({"simulate", "m.xgraph", "--wall", "--fit", "batch"}, {"error[XG0641]: `--wall` runs one plan, and `--fit`"});
  refused({"simulate", "m.xgraph", "--steps", "3"}, {"error[XG0641]: `--steps` has no effect without `--wall`"});
  refused({"simulate", "m.xgraph", "--noise", "5%"}, {"error[XG0641]: `--noise` has no effect without `--wall`"});
  refused({"simulate", "m.xgraph", "--seed", "3"}, {"error[XG0641]: `--seed` has no effect without `--wall`"});
  refused({"simulate", "m.xgraph", "--slow", "3"}, {"error[XG0641]: `--slow` has no effect without `--wall`"});
  refused({"simulate", "m.xgraph", "--wall", "--format", "html"},
          {"error[XG0641]: `--wall` has no report in the form html", "text, csv or json"});
  for (const char* noise : {"5", "0.05", "21%", "-1%", "x%", "%", "nan%"}) {
    refused({"simulate", "m.xgraph", "--wall", std::string("--noise=") + noise},
            {"error[XG0641]: `--noise", "is not a percentage from 0% to 20%", "--noise 5%"});
  }
  for (const char* slow : {"0", "-1", "2x", "1e9", "inf", "nan"}) {
    refused({"simulate", "m.xgraph", "--wall", std::string("--slow=") + slow},
            {"error[XG0641]: `--slow", "is not a number from 0.001 to 1000000", "--slow 20"});
  }
  for (const Words& flag : {Words{"--steps", "0"}, Words{"--steps", "1001"}, Words{"--seed", "-1"}}) {
    Words words{"simulate", "m.xgraph", "--wall"};
    words.insert(words.end(), flag.begin(), flag.end());
    refused(words, {flag[0]});
  }
  refused({"simulate", "m.xplan"}, {"error[XG0620]", "--wall"});
}

TEST_F(Wall, PlansWithTooManyDevicesAreRefused) {
  refused({"simulate", "m.xgraph", "--wall", "--set", "train.batch=1024", "--devices", "80", "--threads", "80",
           "--cluster", "lab.xgraph", "--set", "schedule.stages=1"},
          {"error[XG0641]: the plan has 80 devices, and `--wall` runs at most 64, each in a thread", "--devices N"});
}

}  // namespace
}  // namespace xrun::testing
