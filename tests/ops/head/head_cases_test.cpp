// Heads in every mode, row format and margin compared with the oracle, including extreme inputs.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <vector>

#include "ops/head/margin.h"
#include "tests/ops/head/head_check.h"
#include "tests/support/optimizers.h"

namespace xrun::ops {
namespace {

constexpr uint64_t kSeed = 73;

// A way to choose the classes that take part in a step.
struct Mode {
  const char* name;
  bool some;  // only some of the classes take part
  bool lists = false;
  bool log_q = false;
};
constexpr Mode kModes[] = {{"all", false},
                           {"sample", true},
                           {"sample_log_q", true, false, true},
                           {"knn", true, true},
                           {"knn_log_q", true, true, true}};

// The formats of class rows and of optimizer states. The language rejects fp8 rows with adamw and lamb.
struct Rows {
  const char* name;
  RowFormat weights;
  RowFormat states;
  OptimizerForm form;
};
const OptimizerForm kPlain{.kind = OptimizerKind::kSgd, .weight_decay = 0.01};
const OptimizerForm kMomentum{.kind = OptimizerKind::kSgd, .momentum = 0.9, .weight_decay = 0.01, .states = 1};
const OptimizerForm kAdamw{.kind = OptimizerKind::kAdamw, .weight_decay = 0.01, .states = 2};
// Returns the update of an optimizer. Its rule is compiled or interpreted; a failure is reported here, because it would
// otherwise end the whole test binary.
OptimizerForm form_of(const char* name) {
  auto form = optimizer_form(test::optimizer(name, {{"weight_decay", 0.01}}), detect_isa());
  EXPECT_TRUE(form.ok()) << name;
  OptimizerForm made = form.ok() ? *std::move(form) : OptimizerForm{};
  // These numbers are for the oracle; the loop has them in its rule.
  made.momentum = 0.9;
  made.beta1 = 0.9;
  made.beta2 = 0.999;
  made.eps = 1e-6;
  return made;
}
const OptimizerForm kLars = form_of("lars");
const OptimizerForm kLamb = form_of("lamb");
const Rows kRows[] = {
    {"f32", RowFormat::kF32, RowFormat::kF32, kPlain},
    {"f32_momentum_f32", RowFormat::kF32, RowFormat::kF32, kMomentum},
    {"f32_momentum_bf16", RowFormat::kF32, RowFormat::kBf16, kMomentum},
    {"f32_adamw_f32", RowFormat::kF32, RowFormat::kF32, kAdamw},
    {"f32_adamw_bf16", RowFormat::kF32, RowFormat::kBf16, kAdamw},
    {"bf16", RowFormat::kBf16, RowFormat::kF32, kPlain},
    {"bf16_momentum_f32", RowFormat::kBf16, RowFormat::kF32, kMomentum},
    {"bf16_momentum_bf16", RowFormat::kBf16, RowFormat::kBf16, kMomentum},
    {"bf16_adamw_f32", RowFormat::kBf16, RowFormat::kF32, kAdamw},
    {"bf16_adamw_bf16", RowFormat::kBf16, RowFormat::kBf16, kAdamw},
    {"fp8", RowFormat::kFp8, RowFormat::kF32, kPlain},
    {"fp8_momentum_f32", RowFormat::kFp8, RowFormat::kF32, kMomentum},
    {"fp8_momentum_bf16", RowFormat::kFp8, RowFormat::kBf16, kMomentum},
    {"f32_lars_f32", RowFormat::kF32, RowFormat::kF32, kLars},
    {"f32_lars_bf16", RowFormat::kF32, RowFormat::kBf16, kLars},
    {"bf16_lars_bf16", RowFormat::kBf16, RowFormat::kBf16, kLars},
    {"fp8_lars_bf16", RowFormat::kFp8, RowFormat::kBf16, kLars},
    {"f32_lamb_f32", RowFormat::kF32, RowFormat::kF32, kLamb},
    {"bf16_lamb_bf16", RowFormat::kBf16, RowFormat::kBf16, kLamb},
};

struct Loss {
  const char* name;
  bool cosine;
  MarginForm form;
  bool has_slope = true;  // the gradient is the slope of the loss
};
const Loss kLosses[] = {
    {"softmax", false, margin(1, 1, 0, 0)},
    {"softmax_of_cosines", true, margin(16, 1, 0, 0)},
    {"cosface", true, margin(24, 1, 0, 0.4)},
    {"arcface", true, margin(16, 1, 0.5, 0)},
    {"arcface_64", true, margin(64, 1, 0.5, 0)},
    {"sphereface", true, margin(16, 1.35, 0, 0)},
    {"combined", true, margin(16, 1.1, 0.3, 0.2)},
    {"straight", true, margin(16, 1, 0.5, 0, MarginGrad::kStraight), false},
    {"threshold", true, margin(16, 1, 0.5, 0, MarginGrad::kThreshold)},
};

// Options of a loss that are tested in addition to its margin.
enum Extra { kNothing, kFilter, kSmoothing, kFilterAndSmoothing, kFactors, kExtras };
bool allowed(const Loss& loss, int extra) {
  const bool filter = extra == kFilter || extra == kFilterAndSmoothing;
  const bool smoothing = extra == kSmoothing || extra == kFilterAndSmoothing;
  return (!filter || loss.cosine) && (!smoothing || (!loss.form.angular() && loss.form.m3 == 0));
}

void add_extra(test::HeadProblem& problem, int extra) {
  if (extra == kFilter || extra == kFilterAndSmoothing) {
    problem.margin.filter = filter_near(problem, 0.35);
    EXPECT_GE(filtered(problem), 3);
  }
  if (extra == kSmoothing || extra == kFilterAndSmoothing) {
    problem.margin.smoothing = 0.1;
  }
  if (extra == kFactors) {
    problem.factors = some_factors(problem.rows);
  }
}

test::HeadProblem problem_of(const Loss& loss, int64_t classes, int64_t rows, bool bf16, uint64_t seed) {
  return make_problem({.classes = classes,
                       .dim = 43,
                       .rows = rows,
                       .bf16 = bf16,
                       .cosine = loss.cosine,
                       .bias = !loss.cosine,
                       .margin = loss.form,
                       .seed = seed});
}

// Returns lists that begin with their class, followed by some other classes. Every ninth entry names no class.
std::vector<int32_t> some_lists(int64_t classes, int64_t neighbours) {
  std::vector<int32_t> lists;
  const RandomStream random(kSeed, 2);
  for (int64_t i = 0; i < classes * neighbours; ++i) {
    const auto other = static_cast<int32_t>(random.below(static_cast<uint64_t>(i), static_cast<uint64_t>(classes)));
    lists.push_back(i % neighbours == 0 ? static_cast<int32_t>(i / neighbours) : i % 9 == 4 ? -1 : other);
  }
  return lists;
}

// Returns a plan of the head `problem` with 12 rows in each row block.
StepPlan plan_of(const test::HeadProblem& problem, const Mode& mode, const Rows& rows, int64_t shards) {
  StepPlan plan{.shards = shards,
                .pass_rows = problem.rows,
                .norm_rows = 12,
                .workers = 1,
                .isa = detect_isa(),
                .weights = rows.weights,
                .states = rows.states,
                .log_q = mode.log_q,
                .form = rows.form};
  if (mode.some) {
    plan.active = std::max<int64_t>(1, problem.classes * 2 / 5);
  }
  if (mode.lists) {
    plan.neighbours = std::min<int64_t>(6, problem.classes);
    plan.lists = some_lists(problem.classes, plan.neighbours);
  }
  return plan;
}

// Rounds class weights to the row format.
void narrow(test::HeadProblem& problem, RowFormat format) {
  problem.weight = NarrowRows(format, problem.weight, problem.dim).values();
}

// Tests all combinations of mode, row format and loss. The other settings alternate.
TEST(HeadCases, EveryModeFormatAndMarginMatchesTheOracle) {
  std::vector<std::pair<Isa, bool>> operands;
  for (const bool bf16 : {false, true}) {
    for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
      if (has(isa) && (bf16 || isa == Isa::kAvx2 || isa == Isa::kAvx512)) {
        operands.emplace_back(isa, bf16);
      }
    }
  }
  uint64_t turn = 0;
  for (const Mode& mode : kModes) {
    for (const Rows& rows : kRows) {
      for (const Loss& loss : kLosses) {
        for (int extra = kNothing; extra < kExtras; ++extra, ++turn) {
          // Each combination gets a step without extras and a step with one of them.
          if (!allowed(loss, extra) || (extra != kNothing && extra != 1 + static_cast<int>(turn / kExtras % 4))) {
            continue;
          }
          const auto& [isa, bf16] = operands[turn % operands.size()];
          test::HeadProblem problem = problem_of(loss, 300, 24, bf16, kSeed + turn);
          narrow(problem, rows.weights);
          problem.labels[3] = problem.labels[5];
          problem.labels[9] = -1;
          add_extra(problem, extra);
          StepPlan plan = plan_of(problem, mode, rows, 1 + static_cast<int64_t>(turn % 4));
          plan.isa = isa;
          plan.pass_rows = turn % 3 == 0 ? 12 : 24;
          plan.fused = turn % 3 == 1;
          plan.kept_blocks = static_cast<int64_t>(turn % 3);
          SCOPED_TRACE(std::string(mode.name) + " " + rows.name + " " + loss.name + " extra " + std::to_string(extra) +
                       " shards " + std::to_string(plan.shards) + " pass " + std::to_string(plan.pass_rows) + " " +
                       std::string(name_of(isa)) + (bf16 ? " bf16" : " f32") + " seed " + std::to_string(kSeed + turn));
          expect_step(problem, plan);
          if (HasFatalFailure() || HasNonfatalFailure()) {
            return;
          }
        }
      }
    }
  }
}

// Extreme inputs. `rows` is 24, except in cases about many rows.
struct Extreme {
  const char* name;
  int64_t classes;
  int64_t rows;
  int64_t shards;
  void (*change)(test::HeadProblem&);
};

float* feature(test::HeadProblem& p, int64_t row) { return p.features.data() + row * p.dim; }
float* weight(test::HeadProblem& p, int64_t c) { return p.weight.data() + c * p.dim; }
void scale(float* values, int64_t n, float by) {
  std::for_each(values, values + n, [by](float& x) { x *= by; });
}
// Changes the features of every fifth row.
template <typename Change>
void for_some_rows(test::HeadProblem& p, const Change& change) {
  for (int64_t row = 0; row < p.rows; row += 5) {
    change(feature(p, row));
  }
}
template <typename Change>
void for_some_classes(test::HeadProblem& p, const Change& change) {
  for (int64_t c = 0; c < p.classes; ++c) {
    if (c % 7 == 0 || c == p.labels[2] || c == p.labels[6]) {
      change(weight(p, c));
    }
  }
}

const Extreme kExtremes[] = {
    {"CosinesOfOneAndMinusOne", 300, 24, 3,
     [](test::HeadProblem& p) {
       for (int64_t row = 0; row < p.rows; ++row) {
         const float* w = weight(p, p.labels[static_cast<size_t>(row)]);
         std::transform(w, w + p.dim, feature(p, row), [row](float x) { return row % 2 == 0 ? 8 * x : -8 * x; });
       }
     }},
    {"OneLabelInAllRows", 300, 24, 3, [](test::HeadProblem& p) { std::fill(p.labels.begin(), p.labels.end(), 123); }},
    {"OneRowManyTimes", 300, 24, 3,
     [](test::HeadProblem& p) {
       for (int64_t row = 1; row < p.rows; ++row) {
         std::copy_n(feature(p, 0), p.dim, feature(p, row));
       }
       std::fill(p.labels.begin(), p.labels.end(), p.labels[0]);
     }},
    {"EqualClasses", 300, 24, 3,
     [](test::HeadProblem& p) {
       for (int64_t c = 1; c < p.classes; ++c) {
         std::copy_n(weight(p, 0), p.dim, weight(p, c));
       }
     }},
    {"LabelsOfNobody", 300, 24, 3,
     [](test::HeadProblem& p) {
       constexpr int32_t kNobody[] = {-1, 300, 1 << 30, INT32_MIN, INT32_MAX};
       for (size_t row = 0; row < p.labels.size(); row += 2) {
         p.labels[row] = kNobody[row / 2 % 5];
       }
     }},
    {"NoTargets", 300, 24, 3, [](test::HeadProblem& p) { std::fill(p.labels.begin(), p.labels.end(), -1); }},
    {"OneClass", 1, 24, 1, [](test::HeadProblem&) {}},
    {"OneClassForThreeShards", 1, 24, 3, [](test::HeadProblem&) {}},
    {"TwoClasses", 2, 24, 2, [](test::HeadProblem&) {}},
    {"FewerClassBlocksThanShards", 130, 24, 8, [](test::HeadProblem&) {}},
    {"FewerClassesThanShards", 5, 24, 8, [](test::HeadProblem&) {}},
    {"FeaturesOfZero", 300, 24, 3,
     [](test::HeadProblem& p) { for_some_rows(p, [&](float* x) { scale(x, p.dim, 0); }); }},
    {"ClassWeightsOfZero", 300, 24, 3,
     [](test::HeadProblem& p) { for_some_classes(p, [&](float* w) { scale(w, p.dim, 0); }); }},
    {"TinyFeatures", 300, 24, 3,
     [](test::HeadProblem& p) { for_some_rows(p, [&](float* x) { scale(x, p.dim, 1e-20F); }); }},
    {"TinyClassWeights", 300, 24, 3,
     [](test::HeadProblem& p) { for_some_classes(p, [&](float* w) { scale(w, p.dim, 1e-19F); }); }},
    {"HugeFeatures", 300, 24, 3,
     [](test::HeadProblem& p) { for_some_rows(p, [&](float* x) { scale(x, p.dim, 1e20F); }); }},
    {"HugeClassWeights", 300, 24, 3,
     [](test::HeadProblem& p) { for_some_classes(p, [&](float* w) { scale(w, p.dim, 1e21F); }); }},
    {"ManyRows", 130, 600, 2,
     [](test::HeadProblem& p) {
       for (int64_t row = 0; row < p.rows; row += 50) {  // every 50th row has class 7 and is almost parallel to it
         p.labels[static_cast<size_t>(row)] = 7;
         std::copy_n(weight(p, 7), p.dim, feature(p, row));
         feature(p, row)[row / 50] *= 1.02F;
       }
     }},
};

class HeadExtremes : public testing::TestWithParam<Extreme> {};

INSTANTIATE_TEST_SUITE_P(Cases, HeadExtremes, testing::ValuesIn(kExtremes),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(HeadExtremes, MatchTheOracleInEveryMode) {
  const Extreme& extreme = GetParam();
  uint64_t turn = 0;
  for (const Mode& mode : kModes) {
    for (const size_t format : {1, 7, 12}) {  // rows in f32, bf16 and fp8, each with momentum
      for (const Loss& loss : kLosses) {
        const Rows& rows = kRows[format];
        const bool bf16 = ++turn % 2 == 0;
        test::HeadProblem problem = problem_of(loss, extreme.classes, extreme.rows, bf16, kSeed + 1000 + turn);
        extreme.change(problem);
        narrow(problem, rows.weights);
        StepPlan plan = plan_of(problem, mode, rows, extreme.shards);
        plan.fused = turn % 4 < 2;
        SCOPED_TRACE(std::string(mode.name) + " " + rows.name + " " + loss.name + (bf16 ? " bf16" : " f32") + " seed " +
                     std::to_string(kSeed + 1000 + turn));
        expect_step(problem, plan);
        if (HasFatalFailure() || HasNonfatalFailure()) {
          return;
        }
      }
    }
  }
}

// Checks the oracle's gradients against differences of its loss in f64.
TEST(HeadOracle, GradientsAreThoseOfItsLoss) {
  for (const Loss& loss : kLosses) {
    for (int extra = kNothing; extra < kExtras; ++extra) {
      if (!allowed(loss, extra) || !loss.has_slope) {
        continue;
      }
      SCOPED_TRACE(std::string(loss.name) + " extra " + std::to_string(extra));
      test::HeadProblem problem = problem_of(loss, 90, 10, false, kSeed + 3);
      problem.labels[4] = -1;
      add_extra(problem, extra);
      for (int64_t c = 0; c < problem.classes; ++c) {
        problem.corrections.push_back(0.1F * static_cast<float>(c % 13) - 1);
      }
      const test::HeadAnswer at = solve(problem);
      const auto objective = [&] {
        const test::HeadAnswer answer = solve(problem);
        return problem.row_weight * std::accumulate(answer.loss.begin(), answer.loss.end(), 0.0);
      };
      const auto expect_slopes = [&](std::vector<float>& values, const std::vector<double>& slopes, float step,
                                     size_t every) {
        double size = 0;
        for (const double slope : slopes) {
          size = std::max(size, std::abs(slope));
        }
        for (size_t i = 0; i < values.size(); i += every) {
          const float before = values[i];
          values[i] = before + step;
          const double high = values[i];
          const double above = objective();
          values[i] = before - step;
          const double low = values[i];
          const double slope = (above - objective()) / (high - low);
          values[i] = before;
          ASSERT_NEAR(slope, slopes[i], 2e-4 * size) << i;
        }
      };
      expect_slopes(problem.features, at.dx, 1e-3F, 11);
      expect_slopes(problem.weight, at.dw, loss.cosine ? 5e-5F : 1e-3F, 61);
      expect_slopes(problem.bias, at.db, 1e-3F, 11);
    }
  }
}

// Checks the kernels' gradients without the oracle: they must predict the slope of the loss along a direction. Losses
// are f32, so differences of them are accurate to about one hundredth.
TEST(HeadCases, GradientsOfEveryModeAndMarginAreThoseOfTheLoss) {
  uint64_t turn = 0;
  for (const Mode& mode : kModes) {
    for (const Loss& loss : kLosses) {
      if (!loss.has_slope) {
        continue;
      }
      for (const int format : {0, 5, 10}) {
        const Rows& rows = kRows[format];
        SCOPED_TRACE(std::string(mode.name) + " " + rows.name + " " + loss.name);
        test::HeadProblem problem = problem_of(loss, 300, 24, false, kSeed + 2000 + turn++);
        narrow(problem, rows.weights);
        const StepPlan plan = plan_of(problem, mode, rows, 2);
        const StepResult at = run_step(problem, plan);
        const auto slope_along = [&](std::vector<float>& values, const std::vector<float>& gradient, float step) {
          double norm = 0;
          for (const float g : gradient) {
            norm += static_cast<double>(g) * g;
          }
          norm = std::sqrt(norm);
          const std::vector<float> before = values;
          double sums[2] = {0, 0};
          double moved = 0;  // length of the step along the gradient
          for (const int side : {0, 1}) {
            for (size_t i = 0; i < values.size(); ++i) {
              values[i] = before[i] + (side == 0 ? step : -step) * static_cast<float>(gradient[i] / norm);
              moved += (side == 0 ? 1 : -1) * static_cast<double>(values[i]) * gradient[i] / norm;
            }
            for (const float one : run_step(problem, plan).loss) {
              sums[side] += one * problem.row_weight;
            }
          }
          values = before;
          EXPECT_NEAR((sums[0] - sums[1]) / moved / norm, 1, 0.01);
        };
        slope_along(problem.features, at.dx, 0.1F);
        if (rows.weights == RowFormat::kF32) {  // other formats would be rounded again
          slope_along(problem.weight, at.dw, loss.cosine ? 5e-3F : 0.1F);
        }
      }
    }
  }
}

}  // namespace
}  // namespace xrun::ops
