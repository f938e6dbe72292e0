// Cases P2 and P4: sums over samples and losses that were right when users first tried them. They must stay right.
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cases/run_events.h"
#include "tests/support/command.h"

namespace {

using xrun::testing::run_events;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;

// Returns a table of twelve classes: each row has values around 5 at one or two of six places.
std::string rows_of_twelve_classes() {
  std::string text;
  for (int i = 0; i < 120; ++i) {
    const int label = i % 12;
    for (int column = 0; column < 6; ++column) {
      const double at = column == label % 6 || (label >= 6 && column == (label + 1) % 6) ? 5 : 0;
      text += fmt::format("{:.3f},", at + 0.4 * std::sin(1.7 * i + 2.3 * column));
    }
    text += fmt::format("{}\n", label);
  }
  return text;
}

TEST(P2AccumulationIsALargeBatch, WeightsHaveTheBitsOfOneBatchUnderEachPlan) {
  TemporaryDirectory dir;
  dir.write("train.csv", rows_of_twelve_classes());
  dir.write("m.xgraph", R"(xgraph 1

model m {
  input x: f32[N, 6]

  feature = x -> linear(16) -> bn -> relu -> dropout(0.2) -> linear(8)
  output feature

  head id = cosine_classifier(feature, 12)
}

data d {
  source train = csv("train.csv")

  x     = columns(0..6)
  label = column(6) -> as_index(12)
}

train t {
  batch         = 24
  norm_rows     = 4
  steps         = 8
  loss          = cosface(id, label, margin=0.1, scale=16)
  class_weights = inverse_frequency
  clip          = norm(0.05, heads=true)
  optimizer     = sgd(momentum=0.9, weight_decay=1e-3)
  lr            = [warmup(0 .. 0.02, 3 steps), cosine(0.02 .. 0)]
}
)");
  const auto weights_of = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"train", "m.xgraph", "--deterministic", "--resume", "never", "--progress", "json"};
    more.insert(more.end(), {"-C", fmt::format("run{}", fmt::join(more, "_"))});
    words.insert(words.end(), more.begin(), more.end());
    const auto run = run_xrun(words, {.directory = dir.path()});
    EXPECT_EQ(run.exit, 0) << run.err;
    const auto ends = run_events(run.out, "end");
    return ends.size() == 1 ? ends[0].at("weights").get<std::string>() : run.out;
  };
  const std::string whole = weights_of({});
  for (const int parts : {2, 3, 6}) {
    const std::string batch = fmt::format("train.batch={}", 24 / parts);
    const std::string accumulation = fmt::format("train.grad_accumulation={}", parts);
    EXPECT_EQ(weights_of({"--devices", "1", "--set", batch, "--set", accumulation}), whole) << parts;
    EXPECT_EQ(weights_of({"--devices", "2", "--set", "schedule.stages=2", "--set", batch, "--set", accumulation}),
              whole)
        << parts;
  }
}

TEST(P4LossBeyond87, LossOfLargeLogitsIsExact) {
  struct Row {
    const char* logits;
    int label;
    double loss;
  };
  const Row rows[] = {{"100,0,0", 1, 100},
                      {"1000,0,0", 1, 1000},
                      {"10000000,9999999,10000000", 0, 0.8619948},
                      {"1000000,1000000,-1000000", 0, 0.6931472},
                      {"-500,-500,-500", 2, 1.0986123}};
  for (const Row& row : rows) {
    TemporaryDirectory dir;
    dir.write("train.csv", fmt::format("{},{}\n", row.logits, row.label));
    dir.write("m.xgraph", R"(xgraph 1

model m {
  input x: f32[N, 3]

  param one: [1] = 1

  logits = x * one
  output logits
}

data d {
  source train = csv("train.csv")

  x     = columns(0..3)
  label = column(3) -> as_index(3)
}

train t {
  batch     = 1
  steps     = 1
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.001
  log { every = 1 steps }
}
)");
    const auto run = run_xrun({"train", "m.xgraph", "--progress", "json"}, {.directory = dir.path()});
    ASSERT_EQ(run.exit, 0) << run.err;
    const auto steps = run_events(run.out, "step");
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_NEAR(steps[0].at("loss").get<double>(), row.loss, 1e-6 * (1 + row.loss)) << row.logits;
  }
}

}  // namespace
