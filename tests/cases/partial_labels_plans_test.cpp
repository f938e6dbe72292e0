// Labels that some samples lack: every plan, number of ranks and division of a batch gives the same result.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sstream>
#include <string>

#include "tests/support/command_runs.h"

namespace xrun::testing {
namespace {

// Returns rows of 6 numbers, a kind of 5, a colour of 4, and a kind at each of two positions. About a third of each
// label is missing, each in other rows. A batch may lack a label in all its rows.
std::string rows_with_gaps(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (int column = 0; column < 6; ++column) {
      text += fmt::format("{:.3f},", 2 * std::sin(1.3 * (i % 20) + 2.1 * column) + 0.3 * std::sin(1.7 * i + column));
    }
    const auto label = [&](int classes, int salt) { return (i * 7 + salt) % 3 == 0 ? -1 : (i % 20 + salt) % classes; };
    text += fmt::format("{},{},{},{}\n", i < 48 ? -1 : label(5, 1), label(4, 2), label(5, 3), label(5, 4));
  }
  return text;
}

// Returns a model's text. `tail` is the part of the model after the features.
std::string model_of(const std::string& tail, const std::string& loss, const std::string& metrics,
                     const std::string& more = "") {
  return fmt::format(R"(xgraph 1

model net {{
  input x: f32[N, 6]

  feature = x -> linear(24) -> bn -> relu -> dropout(0.1) -> linear(16) -> bn -> relu -> linear(10)
  output feature

  {}
}}

data d {{
  source train = csv("train.csv")
  source test  = csv("train.csv")

  x      = columns(0..6)
  kind   = column(6) -> ignore(-1) -> as_index(5)
  colour = column(7) -> ignore(-1) -> as_index(4)
  places = columns(8..10) -> ignore(-1) -> as_index(5)
}}

train t {{
  batch     = 48
  norm_rows = 4
  steps     = 7
  loss      = {}
  metrics   = [{}]
  optimizer = sgd(momentum=0.9, weight_decay=1e-3)
  lr        = 0.1
  log {{ every = 1 steps }}
  {}
}}
)",
                     tail, loss, metrics, more);
}

const std::string kDense = model_of(R"(a = feature -> linear(5)
  b = feature -> linear(4)
  c = feature -> linear(10) -> reshape([N, 2, 5])
)",
                                    "softmax_ce(a, kind) + 0.5 * (softmax_ce(b, colour) - 0.2 * softmax_ce(c, places))",
                                    "accuracy(a, kind), accuracy(b, colour), accuracy(c, places)");
const std::string kHeads = model_of(R"(head id = cosine_classifier(feature, 5)
  b = feature -> linear(4)
)",
                                    "cosface(id, kind, margin=0.1, scale=8) + 0.3 * softmax_ce(b, colour)",
                                    "accuracy(id, kind), cosface(id, kind, margin=0.1, scale=8), accuracy(b, colour)",
                                    "clip = norm(1, heads=true)");
const std::string kWeighted = model_of("head id = classifier(feature, 5)", "softmax_ce(id, kind)", "accuracy(id, kind)",
                                       "class_weights = inverse_frequency");

class PartialLabels : public CommandRuns {
 protected:
  void SetUp() override { directory.write("train.csv", rows_with_gaps(240)); }
  std::vector<nlohmann::json> steps_of(const Flags& flags) {
    auto events = train("steps", with(flags, Flags{"--resume", "never"}));
    std::filesystem::remove_all(directory.path() + "/steps");
    std::erase_if(events, [](const auto& event) { return event.at("t") != "step"; });
    return events;
  }
};

TEST_F(PartialLabels, SumsHaveOneResultUnderEveryPlan) {
  write_model(kDense);
  expect_one_result();
}

TEST_F(PartialLabels, HeadsHaveOneResultUnderEveryPlan) {
  write_model(kHeads);
  expect_one_result();
}

TEST_F(PartialLabels, ClassWeightsHaveOneResultUnderEveryPlan) {
  write_model(kWeighted);
  expect_one_result();
}

// The labels of all accumulated parts of a batch are counted together.
TEST_F(PartialLabels, AccumulatedPartsAreOneBatch) {
  for (const std::string& text : {kDense, kHeads, kWeighted}) {
    write_model(text);
    const std::string whole = weights("whole", {"--devices", "1", "--resume", "never"});
    for (const int parts : {2, 4}) {
      const Flags flags{"--set", fmt::format("train.batch={}", 48 / parts), "--set",
                        fmt::format("train.grad_accumulation={}", parts)};
      const std::string out = fmt::format("parts{}", parts);
      EXPECT_EQ(weights(out, with(flags, Flags{"--devices", "1", "--resume", "never"})), whole) << parts;
      EXPECT_EQ(weights(out + "s", with(flags, Flags{"--devices", "2", "--set", "schedule.stages=2"})), whole) << parts;
      std::filesystem::remove_all(directory.path() + "/" + out);
      std::filesystem::remove_all(directory.path() + "/" + out + "s");
    }
    std::filesystem::remove_all(directory.path() + "/whole");
  }
}

// Each rank counts the labels in the rows of all ranks.
TEST_F(PartialLabels, RanksHaveTheWeightsAndMetricsOfOneProcess) {
  const char* const mpirun = "/usr/bin/mpirun";
  if (!std::filesystem::exists(mpirun) || !std::filesystem::exists(std::string(XRUN_BINARY_DIR) + "/libxrun_mpi.so")) {
    GTEST_SKIP() << "no mpirun, or built without MPI";
  }
  write_model(kHeads);
  const Flags flags{"--devices", "4", "--set", "schedule.replicas=2"};
  const auto one = train("one", flags);
  const Flags words = with({"--oversubscribe", "--bind-to", "none", "-n", "2", std::string(XRUN_BINARY_DIR) + "/xrun",
                            "train", kFile, "--deterministic", "--progress", "json", "-C", "two"},
                           flags);
  const auto ranks = run(
      words,
      {.binary = mpirun, .environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}});
  ASSERT_EQ(ranks.exit, 0) << ranks.err;
  const auto two = json_lines(ranks.out);
  EXPECT_EQ(two.back().at("weights"), one.back().at("weights"));
  const auto eval_of = [](const std::vector<nlohmann::json>& events) {
    const auto found = std::ranges::find_if(events, [](const auto& event) { return event.at("t") == "eval"; });
    return std::pair(found->at("metrics"), found->at("labelled"));
  };
  EXPECT_EQ(eval_of(two), eval_of(one));
}

// A metric that repeats the loss has the value of the step's loss.
TEST_F(PartialLabels, AMetricEqualToTheLossHasTheSameMean) {
  write_model(model_of("head id = classifier(feature, 5)", "softmax_ce(id, kind)", "softmax_ce(id, kind)"));
  for (const std::string reduce : {"mean", "sum"}) {
    const auto steps = steps_of({"--set", "train.reduce=" + reduce, "--set", "train.lr=0.01"});
    ASSERT_EQ(steps.size(), 7U);
    for (const auto& step : steps) {
      const double loss = step.at("loss");
      const double metric = step.at("softmax_ce");
      EXPECT_GT(metric, 0.1);
      // With `reduce = sum`, the loss divided by the metric is the number of labels in the step, a whole number.
      EXPECT_NEAR(loss / metric, reduce == "mean" ? 1 : std::round(loss / metric), 1e-4) << reduce;
    }
  }
}

// A balanced order never draws rows without a label, so the run equals a run over the labelled rows.
TEST_F(PartialLabels, ABalancedOrderDrawsLabelledRows) {
  std::vector<std::string> results;
  for (const bool ignores : {true, false}) {
    std::string text = rows_with_gaps(240);
    if (!ignores) {
      std::string kept;
      for (std::istringstream in(text); std::getline(in, text);) {
        const size_t at = [&] {
          size_t place = 0;
          for (int comma = 0; comma < 6; ++comma) {
            place = text.find(',', place) + 1;
          }
          return place;
        }();
        kept += text.compare(at, 2, "-1") == 0 ? "" : text + "\n";
      }
      text = kept;
    }
    directory.write("train.csv", text);
    write_model(model_of("a = feature -> linear(5)", "softmax_ce(a, kind)", "accuracy(a, kind)", "order = balanced"));
    results.push_back(weights(ignores ? "with" : "without", {"--devices", "1"}));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(PartialLabels, OnlyLossesAndMetricsMayReadThem) {
  struct Fault {
    std::string text;
    const char* message;
  };
  const std::string two = "a = feature -> linear(5)\n  b = feature -> linear(4)";
  for (const Fault& fault : {
           Fault{
               model_of("input kind: index(5)[N]\n\n  near = kind -> embed(5, 10)\n  a = (feature + near) -> linear(5)",
                        "softmax_ce(a, kind)", "accuracy(a, kind)"),
               "`embed` reads `kind`, which some samples do not have"},
           Fault{model_of(two, "softmax_ce(a, kind) * softmax_ce(b, colour)", ""),
                 "losses of several labels are combined by more than a sum"},
       }) {
    write_model(fault.text);
    const auto checked = run({"check", kFile});
    EXPECT_EQ(checked.exit, 1);
    EXPECT_NE(checked.err.find(fault.message), std::string::npos) << checked.err;
  }
}

}  // namespace
}  // namespace xrun::testing
