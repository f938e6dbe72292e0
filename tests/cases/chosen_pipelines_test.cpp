// Plans of models for two devices that each have too little memory for the whole model. The settings that a plan
// prints are hints that give the same plan.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/support/command.h"

namespace {

using nlohmann::json;
using xrun::testing::CommandResult;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;

const std::string kModel = R"(xgraph 1

model deep {
  input x: f32[N, 256]

  feature = x -> repeat 24 { linear(256) -> relu }
  output feature

  head id = cosine_classifier(feature, 200)
}

data d {
  source train = synthetic([256], 200, 4096)

  x = pixels
}

train t {
  batch     = 128
  norm_rows = 32
  steps     = 10
  loss      = softmax_ce(id, label, scale=16)
  optimizer = sgd
  lr        = 0.1
}
)";

// Plans the model for two devices with these lines of `schedule`.
json plan(const std::string& hints) {
  const TemporaryDirectory dir;
  dir.write("m.xgraph", kModel + "\nschedule s {\n  replicas = 1\n" + hints + "}\n");
  const CommandResult result =
      run_xrun({"plan", "m.xgraph", "--dry-run", "--devices", "2", "--format", "json"}, {.directory = dir.path()});
  EXPECT_EQ(result.exit, 0) << result.err;
  return json::parse(result.out);
}

// Returns a list of settings that a plan prints as lines of `schedule`.
std::string lines_of(const std::string& settings) {
  return "  " + std::regex_replace(settings, std::regex(", "), "\n  ") + "\n";
}

TEST(ChosenPipelines, ThePrintedSettingsGiveTheSamePlan) {
  const json chosen = plan("");
  std::string hints;
  for (const json& reason : chosen.at("why")) {
    const std::string choice = reason.at("choice");
    std::smatch granularity;
    if (std::regex_match(choice, granularity, std::regex("granularity (\\w+) = (\\w+)"))) {
      hints += "  shard " + granularity.str(1) + " { granularity = " + granularity.str(2) + " }\n";
    } else if (choice.starts_with("stages") || choice.starts_with("micro_batches") || choice.starts_with("pipeline")) {
      hints += lines_of(choice);
    }
  }
  const std::string pipeline = chosen.at("settings").at("pipeline");
  EXPECT_TRUE(pipeline != "gpipe" && pipeline != "one_f_one_b") << pipeline;
  EXPECT_NE(hints.find("granularity = "), std::string::npos) << hints;
  const json again = plan(hints);
  EXPECT_EQ(again.at("plan"), chosen.at("plan")) << hints;
  EXPECT_EQ(again.at("predicted").at("step_seconds"), chosen.at("predicted").at("step_seconds"));
}

TEST(ChosenPipelines, TheSettingsOfComparedPlansGiveThesePlans) {
  const json chosen = plan("");
  int others = 0;
  for (const json& other : chosen.at("alternatives")) {
    const std::string settings = other.at("settings");
    others += settings.find("granularity") != std::string::npos ? 1 : 0;
    const json made = plan(lines_of(settings));
    EXPECT_NEAR(made.at("predicted").at("step_seconds").get<double>(), other.at("step_seconds").get<double>(), 1e-12)
        << settings;
  }
  EXPECT_GT(others, 0);
}

}  // namespace
