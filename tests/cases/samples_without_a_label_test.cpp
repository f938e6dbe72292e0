// Case 22: samples, or positions of a sample, that lack a label are left out of every loss and metric that reads the
// label.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cases/case_files.h"
#include "tests/support/command_runs.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns rows of twelve classes, with values around 5 at one or two of six places. `label` makes the label from the
// class; if it returns nothing, the row is left out.
std::string rows_of_twelve_classes(int count, const std::function<std::string(int)>& label) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const int kind = i % 12;
    const std::string last = label(kind);
    for (int column = 0; column < 6 && !last.empty(); ++column) {
      const double at = column == kind % 6 || (kind >= 6 && column == (kind + 1) % 6) ? 5 : 0;
      text += fmt::format("{:.3f},", at + 0.4 * std::sin(1.7 * i + 2.3 * column));
    }
    text += last.empty() ? "" : last + "\n";
  }
  return text;
}

// One device is the fastest for such small models, also on a busy machine.
const Flags kOne{"--devices", "1", "--threads", "1"};

// Every third class has no label.
std::string label_or_minus_one(int kind) { return kind % 3 == 1 ? "-1" : fmt::format("{}", kind); }
std::string label_or_nothing(int kind) { return kind % 3 == 1 ? "" : fmt::format("{}", kind); }

std::vector<nlohmann::json> events_of(const std::string& out, const std::string& kind) {
  std::vector<nlohmann::json> events = json_lines(out);
  std::erase_if(events, [&](const nlohmann::json& event) { return event.at("t") != kind; });
  return events;
}

class Case22SamplesWithoutALabel : public CommandRuns {
 protected:
  // Writes the model of the case. `label` holds the stages after the column.
  void write_case(const std::string& label, const std::string& more = "") {
    write_model(fmt::format(R"(xgraph 1

model m {{
  input x: f32[N, 6]

  logits = x -> linear(16) -> relu -> linear(12)
  output logits
}}

data d {{
  source train = csv("train.csv")
  source test  = csv("train.csv")

  x     = columns(0..6)
  label = column(6){}
}}

train t {{
  batch     = 12
  steps     = 150
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = adamw
  lr        = 0.02
  {}
}}
)",
                            label, more));
  }
};

TEST_F(Case22SamplesWithoutALabel, TrainsAndMeasuresTheLabelledRowsAlone) {
  directory.write("train.csv", rows_of_twelve_classes(120, label_or_minus_one));
  write_case(" -> ignore(-1) -> as_index(12)");
  const auto trained = run(with({"train", kFile, "-C", "out", "--progress", "plain"}, kOne));
  ASSERT_EQ(trained.exit, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("test=1.0000 test.label.labels=80 of=120"));
  const auto text = run({"eval", "out/ckpt/t", "--per-class"});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("  test   120 samples; `label` measured on 80 of 120 rows\n"));
  EXPECT_THAT(text.out, HasSubstr("8 classes with samples"));
  EXPECT_THAT(text.out, HasSubstr("test 100.00 %"));
  const auto json = json_lines(run({"eval", "out/ckpt/t", "--format", "json", "--confusion", "c.csv"}).out);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0].at("metrics").at("test"), 1.0);
  EXPECT_EQ(json[0].at("labelled").at("test").at("label"), nlohmann::json({{"labels", 80}, {"of", 120}}));
  EXPECT_THAT(read_file(directory.path() + "/c.csv"), Not(HasSubstr("-1")));
}

TEST_F(Case22SamplesWithoutALabel, AreCountedByTheCheck) {
  directory.write("train.csv", rows_of_twelve_classes(120, label_or_minus_one));
  write_case(" -> ignore(-1) -> as_index(12)");
  const auto text = run({"check", "--data", kFile});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("120 samples decoded; 80 of 120 rows have a `label`\n"));
  const auto json = json_lines(run({"check", "--data", kFile, "--format", "json"}).out);
  const auto line = std::ranges::find_if(json, [](const auto& one) { return one.contains("labelled"); });
  ASSERT_NE(line, json.end());
  EXPECT_EQ(line->at("labelled").at("label"), nlohmann::json({{"labels", 80}, {"of", 120}}));
}

TEST_F(Case22SamplesWithoutALabel, AreAnErrorWithoutIgnore) {
  directory.write("train.csv", rows_of_twelve_classes(120, label_or_minus_one));
  write_case(" -> as_index(12)");
  const auto checked = run({"check", "--data", kFile});
  EXPECT_EQ(checked.exit, 1);
  EXPECT_THAT(checked.err, HasSubstr("error[XG0402]"));
}

// The whole data is one batch, so both runs see the same labels in each step.
TEST_F(Case22SamplesWithoutALabel, LearnsAsFromTheLabelledRowsAlone) {
  struct Kind {
    const char* name;
    const char* head;  // text of the head, after the feature
    const char* loss;
    const char* more;
  };
  for (const Kind& kind : {
           Kind{"dense", "logits = feature -> linear(12)", "softmax_ce(logits, label, smoothing=0.1)", ""},
           Kind{"focal", "logits = feature -> linear(12)", "softmax_ce(logits, label) -> focal", ""},
           Kind{"head", "head logits = classifier(feature, 12)", "softmax_ce(logits, label)", ""},
           Kind{"cosines", "head logits = cosine_classifier(feature, 12)",
                "cosface(logits, label, margin=0.1, scale=8)", "clip = norm(0.5, heads=true)"},
           Kind{"weights", "logits = feature -> linear(12)", "softmax_ce(logits, label)",
                "class_weights = inverse_frequency"},
           Kind{"weights of a head", "head logits = classifier(feature, 12)", "softmax_ce(logits, label)",
                "class_weights = inverse_frequency"},
           Kind{"sum", "logits = feature -> linear(12)", "softmax_ce(logits, label)", "reduce = sum"},
           Kind{"active classes", "head logits = cosine_classifier(feature, 400)", "arcface(logits, label, scale=8)",
                "active_classes = sample(150)"},
       }) {
    SCOPED_TRACE(kind.name);
    std::vector<std::vector<double>> losses;
    std::vector<std::vector<double>> hits;
    for (const bool ignores : {true, false}) {
      directory.write("train.csv", rows_of_twelve_classes(120, ignores ? label_or_minus_one : label_or_nothing));
      write_model(fmt::format(R"(xgraph 1

pointwise focal(ce) = (1 - exp(-ce)) ^ 2 * ce

model m {{
  input x: f32[N, 6]

  feature = x -> linear(16) -> relu
  {}
  output feature
}}

data d {{
  source train = csv("train.csv")

  x     = columns(0..6)
  label = column(6){} -> as_index({})
}}

train t {{
  batch     = {}
  steps     = 25
  loss      = {}
  metrics   = [accuracy(logits, label)]
  optimizer = sgd(momentum=0.9, weight_decay=1e-3)
  lr        = {}
  log {{ every = 1 steps }}
  {}
}}
)",
                              kind.head, ignores ? " -> ignore(-1)" : "",
                              std::string(kind.name) == "active classes" ? 400 : 12, ignores ? 120 : 80, kind.loss,
                              std::string(kind.name) == "sum" ? 0.0005 : 0.05, kind.more));
      const auto steps = events_of(training(ignores ? "a" : "b", kOne).out, "step");
      losses.emplace_back();
      hits.emplace_back();
      for (const auto& step : steps) {
        losses.back().push_back(step.at("loss"));
        hits.back().push_back(step.at("accuracy"));
      }
      std::filesystem::remove_all(directory.path() + (ignores ? "/a" : "/b"));
    }
    ASSERT_EQ(losses[0].size(), 25U);
    ASSERT_EQ(losses[1].size(), 25U);
    EXPECT_LT(losses[0].back(), 0.8 * losses[0].front());
    for (size_t step = 0; step < 25; ++step) {
      EXPECT_NEAR(losses[0][step], losses[1][step], 1e-4 * losses[1][step]) << step;
      EXPECT_NEAR(hits[0][step], hits[1][step], 0.02) << step;
    }
  }
}

TEST_F(Case22SamplesWithoutALabel, IgnoredDirectoriesAreNoClasses) {
  write_animals(directory, "pictures", 4);
  write_model(R"(xgraph 1

model m {
  input image: f32[N, 3, 8, 8]

  logits = image -> flatten(1) -> linear(2)
  output logits
}

data d {
  source train = folder("pictures")
  source test  = folder("pictures")

  image = file -> decode(8) -> normalize(mean=127.5, std=127.5)
  label = label -> ignore(["dog", "Owl"])
}

train t {
  batch     = 4
  steps     = 30
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = sgd
  lr        = 0.01
}
)");
  const auto trained = run(with({"train", kFile, "-C", "out", "--progress", "plain"}, kOne));
  ASSERT_EQ(trained.exit, 0) << trained.err;
  EXPECT_THAT(trained.err,
              HasSubstr("`ignore` of `label` names `Owl`, but source `train` has no such cell or directory"));
  EXPECT_THAT(trained.err, HasSubstr("test=1.0000 test.label.labels=8 of=12"));
  const auto text = run({"eval", "out/ckpt/t", "--per-class"});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("owl"));
  EXPECT_THAT(text.out, Not(HasSubstr("dog")));
}

TEST_F(Case22SamplesWithoutALabel, IgnoredTextsAreNoClasses) {
  directory.write("train.csv", rows_of_twelve_classes(120, [](int kind) {
                    return kind % 3 == 1 ? std::string(kind == 1 ? "unknown" : "b?") : fmt::format("kind{:02}", kind);
                  }));
  write_case(R"( -> ignore(["unknown", "b?"]) -> as_index(12))");
  ASSERT_EQ(training("out", kOne).exit, 0);
  const auto json = json_lines(run({"eval", "out/ckpt/t", "--per-class", "--format", "json"}).out);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0].at("metrics").at("test"), 1.0);
  EXPECT_EQ(json[0].at("labelled").at("test").at("label").at("labels"), 80);
  std::vector<std::string> names;
  for (const auto& one : json[0].at("per_class").at("test")) {
    names.push_back(one.at("name"));
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("kind00", "kind02", "kind03", "kind05", "kind06", "kind08", "kind09", "kind11"));
}

// Missing cells are ignored with `missing=true`, or if `ignore` lists any word for a missing value.
TEST_F(Case22SamplesWithoutALabel, MissingCellsAreIgnoredIfIgnoreAllowsThem) {
  directory.write("train.csv", rows_of_twelve_classes(120, [](int kind) {
                    return kind == 1 ? std::string("NA") : kind % 3 == 1 ? "nan" : fmt::format("{}", kind);
                  }));
  write_case(" -> as_index(12)");
  const auto without = run({"check", "--data", kFile});
  if (without.err.find("missing value") == std::string::npos) {
    GTEST_SKIP() << "tables have no missing values yet";
  }
  EXPECT_THAT(without.err, HasSubstr("error[XG0412]"));
  for (const char* ignore : {"missing=true", "\"NA\"", "-1, missing=true"}) {
    write_case(fmt::format(" -> ignore({}) -> as_index(12)", ignore));
    const auto checked = run({"check", "--data", kFile});
    EXPECT_EQ(checked.exit, 0) << checked.err;
    EXPECT_THAT(checked.out, HasSubstr("80 of 120 rows have a `label`")) << ignore;
  }
}

TEST_F(Case22SamplesWithoutALabel, BatchesWithoutLabelsHaveTheLossZero) {
  directory.write("train.csv", rows_of_twelve_classes(120, [](int kind) { return kind < 6 ? "-1" : "3"; }));
  write_case(" -> ignore(-1) -> as_index(12)", "order = sequential\n  log { every = 1 steps }");
  const auto events = run(with(
      {"train", kFile, "-C", "out", "--progress", "json", "--set", "train.batch=6", "--set", "train.steps=6"}, kOne));
  ASSERT_EQ(events.exit, 0) << events.err;
  const auto steps = events_of(events.out, "step");
  ASSERT_EQ(steps.size(), 6U);
  for (size_t step = 0; step < 6; ++step) {
    EXPECT_EQ(steps[step].at("loss").get<double>() == 0, step % 2 == 0) << step;
  }
  const auto warnings = events_of(events.out, "warn");
  EXPECT_EQ(std::ranges::count_if(warnings, [](const auto& one) { return one.at("code") == "XG0848"; }), 1);
}

TEST_F(Case22SamplesWithoutALabel, ASourceWithoutLabelsIsAnError) {
  directory.write("train.csv", rows_of_twelve_classes(120, [](int) { return "-1"; }));
  write_case(" -> ignore(-1) -> as_index(12)");
  const auto events = run(with({"train", kFile, "-C", "out", "--set", "train.steps=3"}, kOne));
  EXPECT_EQ(events.exit, 1);
  EXPECT_THAT(events.err, HasSubstr("error[XG0425]"));
  EXPECT_THAT(events.err, HasSubstr("no sample of source `test` has a `label` to compare with"));
}

}  // namespace
}  // namespace xrun::testing
