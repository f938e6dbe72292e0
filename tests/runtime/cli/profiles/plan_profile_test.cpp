#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

std::string layer(const std::string& name, double forward, double backward) {
  return name + " -- Conv2d(3, 64) -- forward_compute_time=" + std::to_string(forward) +
         ", backward_compute_time=" + std::to_string(backward) + ", activation_size=8.0, parameter_size=0.0\n";
}

// Two branches of 3 and 5 ms between layers of 1 and 2 ms. The order of the text, in which the branches alternate,
// allows no cut better than 6 and 5.
class PlanProfile : public ::testing::Test {
 protected:
  PlanProfile() {
    directory_.write("p.txt", layer("node1", 0.5, 0.5) + layer("node2", 1, 2) + layer("node3", 2, 3) +
                                  layer("node4", 1, 1) +
                                  "\tnode1 -- node2\n\tnode1 -- node3\n\tnode2 -- node4\n\tnode3 -- node4\n");
  }
  CommandResult plan(std::vector<std::string> words) const {
    words.insert(words.begin(), "plan");
    return run_xrun(words, {.directory = directory_.path()});
  }

  TemporaryDirectory directory_;
};

TEST_F(PlanProfile, StagesAreCutInTheBestOrder) {
  const CommandResult result = plan({"--layer-times", "p.txt", "--stages", "2", "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("file"), "p.txt");
  EXPECT_EQ(json.at("stages").at(0).at("nodes"), (std::vector<std::string>{"node1", "node3"}));
  EXPECT_EQ(json.at("stages").at(1).at("nodes"), (std::vector<std::string>{"node2", "node4"}));
  EXPECT_DOUBLE_EQ(json.at("stages").at(1).at("time_ms"), 5);
  EXPECT_DOUBLE_EQ(json.at("bottleneck_ms"), 6);
  EXPECT_NEAR(json.at("lower_bound_ms"), 6, 1e-3);
}

TEST_F(PlanProfile, TextHasTheStagesAndTheBound) {
  const CommandResult result = plan({"--layer-times", "p.txt", "--stages", "2"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.out,
            "p.txt   4 layers   11.0 ms for a forward and a backward pass\n"
            "\n"
            "  stage  layers    time  of largest  first         last\n"
            "      0       2  6.0 ms     100.0 %  node1 Conv2d  node3 Conv2d\n"
            "      1       2  5.0 ms      83.3 %  node2 Conv2d  node4 Conv2d\n"
            "\n"
            "  largest stage 6.0 ms; no other cuts have one that is more than 0.001 % smaller\n"
            "  node1 Conv2d reads no other layer: add the missing edges, unless the profile has none there\n");
}

TEST_F(PlanProfile, LayersThatReadNothingAreNamed) {
  directory_.write("gap.txt", layer("a", 1, 1) + layer("b", 1, 1) + layer("c", 1, 1) + "\ta -- b\n");
  const CommandResult result = plan({"--layer-times", "gap.txt", "--stages", "3"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("  a Conv2d, c Conv2d read no other layer: add the missing edges"));
  const CommandResult json = plan({"--layer-times", "gap.txt", "--stages", "3", "--format", "json"});
  EXPECT_EQ(nlohmann::json::parse(json.out).at("sources"), (std::vector<std::string>{"a", "c"}));
}

TEST_F(PlanProfile, WrongRequestsAreRefused) {
  directory_.write("cycle.txt", layer("a", 1, 1) + layer("b", 1, 1) + "\ta -- b\n\tb -- a\n");
  struct Case {
    std::vector<std::string> words;
    int exit;
    std::string message;
  };
  const Case cases[] = {
      {{"--layer-times", "p.txt"}, 2, "`--layer-times` without a model needs the number of stages"},
      {{"--layer-times", "p.txt", "--stages", "0"}, 2, "--stages"},
      {{"--layer-times", "p.txt", "--stages", "5"}, 1, "XG0602]: 5 stages for 4 layers"},
      {{"--layer-times", "none.txt", "--stages", "2"}, 1, "none.txt"},
      {{"--layer-times", "cycle.txt", "--stages", "2"}, 1, "XG0631]: cycle.txt:4: the edges form a cycle: a -> b -> a"},
      {{"m.xgraph", "--layer-times", "p.txt", "--stages", "2"}, 2, "`--stages` is for `--layer-times` without a model"},
      {{"--layer-times", "p.txt", "--stages", "2", "--devices", "2"}, 2, "`--devices` has no effect"},
      {{"m.xgraph", "--stages", "2"}, 2, "`--stages` is for `--layer-times` without a model"},
      {{"m.xgraph", "--layer-times", "p.txt", "--fit", "classes"}, 2, "`--layer-times` has no effect with `--fit`"},
      {{}, 2, "`xrun plan` needs a model"},
  };
  for (const Case& one : cases) {
    const CommandResult result = plan(one.words);
    EXPECT_EQ(result.exit, one.exit) << result.err;
    EXPECT_THAT(result.err, HasSubstr(one.message));
    EXPECT_EQ(result.out, "");
  }
}

// The user's times of layers of a model decide its cuts, and the plan file has them.
TEST_F(PlanProfile, TimesOfAModelsLayersArePlannedAndKept) {
  directory_.write("m.xgraph", tiny_model());
  const CommandResult names =
      run_xrun({"show", "m.xgraph", "--table", "layers", "--format", "json"}, {.directory = directory_.path()});
  ASSERT_EQ(names.exit, 0) << names.err;
  const std::string first = nlohmann::json::parse(names.out)["layers"][0]["name"];
  directory_.write("t.json",
                   "{\"rows\": 8, \"layers\": {\"" + first + "\": {\"forward_ms\": 80, \"backward_ms\": 90}}}");
  const std::vector<std::string> words{"m.xgraph", "--layer-times",     "t.json", "--devices", "2",
                                       "--set",    "schedule.stages=2", "-o",     "m.xplan"};
  const CommandResult planned = plan(words);
  ASSERT_EQ(planned.exit, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("times of " + directory_.path() + "/t.json, for 8 rows"));
  std::filesystem::remove(directory_.path() + "/t.json");
  const CommandResult shown =
      run_xrun({"show", "m.xplan", "--table", "layers", "--format", "json"}, {.directory = directory_.path()});
  ASSERT_EQ(shown.exit, 0) << shown.err;
  const auto json = nlohmann::json::parse(shown.out);
  EXPECT_EQ(json["layer_times"]["layers"], 1);
  double forward = 0;
  for (const auto& layer : json["layers"]) {
    forward += layer["name"] == first ? layer["forward_seconds"].get<double>() : 0;
  }
  const auto page =
      nlohmann::json::parse(run_xrun({"show", "m.xplan", "--format", "json"}, {.directory = directory_.path()}).out);
  const double rows = page["settings"]["batch"].get<double>() / page["settings"]["micro_batches"].get<double>();
  EXPECT_NEAR(forward, 80e-3 * rows / 8, 1e-9);
}

TEST_F(PlanProfile, FaultsOfTimesOfLayersNameTheFileAndTheLine) {
  directory_.write("m.xgraph", tiny_model());
  directory_.write("other.json", "{\"rows\": 8,\n\"layers\": {\"nothing\": {\"forward_ms\": 1}}}");
  const CommandResult other = plan({"m.xgraph", "--layer-times", "other.json"});
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, HasSubstr("XG0632]: other.json:2: the model has no layer `nothing`"));
  EXPECT_THAT(plan({"m.xgraph", "--layer-times", "p.txt"}).err, HasSubstr("XG0632]: p.txt:1: the text is not JSON"));
  EXPECT_EQ(plan({"m.xgraph", "--layer-times", "none.json"}).exit, 1);
}

}  // namespace
}  // namespace xrun::testing
