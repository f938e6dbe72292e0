// Losses over labels that are missing in some rows or positions, compared with their formulas.
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/command_runs.h"

namespace xrun::testing {
namespace {

class LossesOfPartialLabels : public CommandRuns {
 protected:
  std::vector<nlohmann::json> steps_of() const {
    std::vector<nlohmann::json> steps = train("out", {"--devices", "1", "--threads", "1"});
    std::erase_if(steps, [](const nlohmann::json& event) { return event.at("t") != "step"; });
    std::filesystem::remove_all(directory.path() + "/out");
    return steps;
  }
};

// The logits are x times one trained number, so losses and gradients are sums of a few terms.
TEST_F(LossesOfPartialLabels, FollowTheFormula) {
  // Each row has two positions with three classes; -1 means that there is no label.
  const std::vector<std::vector<double>> x{
      {1, 0, 2, 0, 1, 0}, {0, 3, 1, 1, 1, 0}, {2, 2, 0, 0, 0, 1}, {1, 4, 0, 2, 0, 0}};
  const std::vector<std::vector<int>> labels{{2, -1}, {-1, -1}, {0, 1}, {-1, 0}};
  std::string text;
  for (size_t row = 0; row < x.size(); ++row) {
    text += fmt::format("{},{}\n", fmt::join(x[row], ","), fmt::join(labels[row], ","));
  }
  directory.write("train.csv", text);
  for (const bool sums : {false, true}) {
    for (const bool positions : {false, true}) {
      write_model(fmt::format(R"(xgraph 1

model m {{
  input x: f32[N, {0}]

  param one: [1] = 1

  logits = x * one{1}
  output logits
}}

data d {{
  source train = csv("train.csv")

  x     = columns(0..{0})
  label = {2} -> ignore(-1) -> as_index(3)
}}

train t {{
  batch     = 4
  steps     = 6
  loss      = softmax_ce(logits, label)
  reduce    = {3}
  metrics   = [accuracy(logits, label)]
  optimizer = sgd
  lr        = 0.1
  log {{ every = 1 steps }}
}}
)",
                              positions ? 6 : 3, positions ? " -> reshape([N, 2, 3])" : "",
                              positions ? "columns(6..8)" : "column(6)", sums ? "sum" : "mean"));
      const auto steps = steps_of();
      ASSERT_EQ(steps.size(), 6U);
      double one = 1;
      for (const auto& step : steps) {
        double loss = 0, slope = 0, count = 0;
        for (size_t row = 0; row < x.size(); ++row) {
          for (size_t at = 0; at < (positions ? 2U : 1U); ++at) {
            if (labels[row][at] < 0) {
              continue;
            }
            const double* z = x[row].data() + 3 * at;
            const double target = z[labels[row][at]];
            const double sum = std::exp(one * z[0]) + std::exp(one * z[1]) + std::exp(one * z[2]);
            loss += std::log(sum) - one * target;
            slope -= target;
            for (int c = 0; c < 3; ++c) {
              slope += std::exp(one * z[c]) / sum * z[c];
            }
            ++count;
          }
        }
        const double divisor = sums ? (positions ? 2 : 1) : count;
        EXPECT_NEAR(step.at("loss").get<double>(), loss / divisor, 1e-5) << sums << positions;
        EXPECT_NEAR(step.at("accuracy").get<double>(), positions ? 3.0 / 4 : 1.0, 1e-6) << sums << positions;
        one -= 0.1 * slope / divisor;
      }
    }
  }
}

// A loss over two labels is the sum of two means. Each mean is over the rows that have its label.
TEST_F(LossesOfPartialLabels, EachMeanIsOverTheRowsThatHaveItsLabel) {
  const std::vector<std::vector<double>> x{
      {1, 0, 2, 0, 1, 0}, {0, 3, 1, 1, 1, 0}, {2, 2, 0, 0, 0, 1}, {1, 4, 0, 2, 0, 0}};
  const std::vector<std::vector<int>> labels{{2, -1}, {-1, -1}, {0, 1}, {1, 0}};
  std::string text;
  for (size_t row = 0; row < x.size(); ++row) {
    text += fmt::format("{},{}\n", fmt::join(x[row], ","), fmt::join(labels[row], ","));
  }
  directory.write("train.csv", text);
  write_model(R"(xgraph 1

model m {
  input x: f32[N, 6]

  param one: [1] = 1

  a = x -> slice(1, 0, 3)
  b = x -> slice(1, 3, 6)

  logits = a * one
  others = b * one
  output logits
}

data d {
  source train = csv("train.csv")

  x     = columns(0..6)
  label = column(6) -> ignore(-1) -> as_index(3)
  other = column(7) -> ignore(-1) -> as_index(3)
}

train t {
  batch     = 4
  steps     = 4
  loss      = softmax_ce(logits, label) + 0.5 * softmax_ce(others, other) + 0.1 * mse(a, b)
  metrics   = [accuracy(logits, label), accuracy(others, other)]
  optimizer = sgd
  lr        = 0.1
  log { every = 1 steps }
}
)");
  const auto steps = steps_of();
  ASSERT_EQ(steps.size(), 4U);
  double one = 1;
  for (const auto& step : steps) {
    double loss = 0, slope = 0;
    for (size_t part = 0; part < 2; ++part) {
      const double factor = part == 0 ? 1.0 / 3 : 0.5 / 2;
      for (size_t row = 0; row < x.size(); ++row) {
        if (labels[row][part] >= 0) {
          const double* z = x[row].data() + 3 * part;
          const double sum = std::exp(one * z[0]) + std::exp(one * z[1]) + std::exp(one * z[2]);
          loss += factor * (std::log(sum) - one * z[labels[row][part]]);
          slope -= factor * z[labels[row][part]];
          for (int c = 0; c < 3; ++c) {
            slope += factor * std::exp(one * z[c]) / sum * z[c];
          }
        }
      }
    }
    // One term of the loss reads no label. It is a mean over all rows and changes no weight.
    for (const auto& row : x) {
      for (size_t c = 0; c < 3; ++c) {
        loss += 0.1 / 4 * (row[c] - row[c + 3]) * (row[c] - row[c + 3]) / 3;
      }
    }
    EXPECT_NEAR(step.at("loss").get<double>(), loss, 1e-5);
    EXPECT_NEAR(step.at("accuracy").get<double>(), 1, 1e-6);  // all three rows with a label are right: 2, 0, 1
    EXPECT_NEAR(step.at("accuracy_2").get<double>(), 0.5, 1e-6);
    one -= 0.1 * slope;
  }
}

}  // namespace
}  // namespace xrun::testing
