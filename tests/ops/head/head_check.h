// Compares a training step of a head with the oracle (tests/support/head_oracle.h), row by row: loss, gradients, and
// the memory after the update. The oracle reads class rows as they are stored, so narrow formats do not widen the
// bounds of loss and gradients. In f32 the bound is 1e-5 of the size of the terms for scales up to 16, because the
// scale multiplies errors of cosines. In bf16 it is 1e-2, because the gradient of a logit is rounded once more. After
// the update, a stored row may differ by at most one step of its format.
#pragma once

#include <gtest/gtest.h>
#include <limits>
#include <string>

#include "tests/ops/head/head_runner.h"

namespace xrun::ops {

// Returns whether the processor has an instruction set, regardless of whether xrun would choose it.
inline bool has(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::kAvx2:
      return true;
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
    case Isa::kAvx512Bf16:
      return __builtin_cpu_supports("avx512bf16") != 0;
    case Isa::kAmx:
      return detect_isa() == Isa::kAmx;
  }
  return false;
}

inline MarginForm margin(double scale, double m1, double m2, double m3, MarginGrad grad = MarginGrad::kCapped) {
  return {.scale = scale, .m1 = m1, .m2 = m2, .m3 = m3, .grad = grad};
}

// Returns a weight for each row, as class weights give. A weight of 0 leaves the row out.
inline std::vector<float> some_factors(int64_t rows) {
  std::vector<float> factors;
  for (int64_t row = 0; row < rows; ++row) {
    factors.push_back(row % 5 == 3 ? 0 : 0.3F * static_cast<float>(1 + row % 7));
  }
  return factors;
}

// Returns a threshold for the filter near `about`: the middle of the widest gap between cosines there, so that rounding
// moves no cosine across it.
inline double filter_near(const test::HeadProblem& problem, double about) {
  std::vector<double> cosines = solve(problem).logits;
  std::erase_if(cosines, [&](double x) { return std::abs(x - about) > 0.05; });
  std::sort(cosines.begin(), cosines.end());
  double filter = 1;
  double widest = 0;
  for (size_t i = 1; i < cosines.size(); ++i) {
    if (cosines[i] - cosines[i - 1] > widest) {
      widest = cosines[i] - cosines[i - 1];
      filter = (cosines[i] + cosines[i - 1]) / 2;
    }
  }
  EXPECT_GE(widest, 1e-3);
  return filter;
}

// Counts the cosines with classes other than the target that exceed the threshold of the filter.
inline int64_t filtered(const test::HeadProblem& problem) {
  const std::vector<double> cosines = solve(problem).logits;
  int64_t count = 0;
  for (size_t i = 0; i < cosines.size(); ++i) {
    const auto classes = static_cast<size_t>(problem.classes);
    const auto label = static_cast<size_t>(problem.labels[i / classes]);
    count += i % classes != label && cosines[i] > problem.margin.filter ? 1 : 0;
  }
  return count;
}

// Returns the problem restricted to the classes in the list.
inline test::HeadProblem part_of(const test::HeadProblem& whole, const std::vector<int32_t>& classes) {
  test::HeadProblem part = whole;
  part.classes = static_cast<int64_t>(classes.size());
  part.weight.clear();
  part.bias.clear();
  part.corrections.clear();
  for (const int32_t one : classes) {
    const auto first = whole.weight.begin() + one * whole.dim;
    part.weight.insert(part.weight.end(), first, first + whole.dim);
    if (whole.form.bias) {
      part.bias.push_back(whole.bias[static_cast<size_t>(one)]);
    }
    if (!whole.corrections.empty()) {
      part.corrections.push_back(whole.corrections[static_cast<size_t>(one)]);
    }
  }
  for (int32_t& label : part.labels) {
    const auto at = std::lower_bound(classes.begin(), classes.end(), label);
    label = at != classes.end() && *at == label ? static_cast<int32_t>(at - classes.begin()) : -1;
  }
  return part;
}

// Expects |got - want| of rows of `width` numbers to be at most `bound` times the size of the row's terms.
inline void expect_rows_near(const std::vector<float>& got, const std::vector<double>& want,
                             const std::vector<double>& size, double bound, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const size_t width = size.empty() ? 0 : want.size() / size.size();
  for (size_t row = 0; row < size.size(); ++row) {
    double wrong = 0;
    for (size_t i = row * width; i < (row + 1) * width; ++i) {
      const double difference = static_cast<double>(got[i]) - want[i];
      wrong += difference * difference;
    }
    const double underflow = std::sqrt(static_cast<double>(width)) * std::numeric_limits<float>::min();
    // A comparison with NaN is false, so this form also fails for NaN.
    ASSERT_TRUE(std::sqrt(wrong) <= bound * size[row] + underflow)
        << what << " of row " << row << ": wrong by " << std::sqrt(wrong) << ", terms as large as " << size[row];
  }
}

// The distance between neighbours of `x` in a format, which is the most that stochastic rounding can move it by. bf16
// has seven bits after the leading one, fp8 three; below its smallest normal number fp8 has equal steps of 2^-9 of the
// row's scale, which is at most 1/224 of the row's largest number.
inline double format_step(RowFormat format, double x, double largest_of_row) {
  switch (format) {
    case RowFormat::kF32:
      return 0;
    case RowFormat::kBf16:
      return 0x1p-7 * std::abs(x);
    case RowFormat::kFp8:
      return std::max(0x1p-3 * std::abs(x), 0x1p-9 * largest_of_row / 224);
  }
  return 0;
}

// One element of a class row after the update of `run_step`, computed in f64.
struct Updated {
  double weight = 0;
  double states[2] = {0, 0};
};

inline constexpr double kStepRate = 0.1;
inline constexpr double kStepDecay = 0.01;

// Returns the step of adamw and lamb in the first update, before any trust ratio.
inline double adam_step(const OptimizerForm& form, double w, double m, double v) {
  return m / (1 - form.beta1) / (std::sqrt(v / (1 - form.beta2)) + form.eps) + kStepDecay * w;
}

// Computes the updated element. Class rows have no trust ratio.
inline Updated updated(const OptimizerForm& form, double w, double g) {
  if (form.states == 2) {
    const double m = form.beta1 * kFirstState + (1 - form.beta1) * g;
    const double v = form.beta2 * kSecondState + (1 - form.beta2) * g * g;
    return {w - kStepRate * adam_step(form, w, m, v), {m, v}};
  }
  const double v = form.momentum * (form.states > 0 ? kFirstState : 0) + g + kStepDecay * w;
  return {w - kStepRate * v, {v, 0}};
}

// Expects that the rows of the classes in `part` are updated and that all other rows are unchanged. `want` is the
// oracle's answer.
inline void expect_updated_rows(const test::HeadProblem& problem, const StepPlan& plan, const StepResult& got,
                                const std::vector<int32_t>& part, const test::HeadAnswer& want, double bound) {
  const auto dim = static_cast<size_t>(problem.dim);
  std::vector<bool> moves(static_cast<size_t>(problem.classes));
  for (size_t i = 0; i < part.size(); ++i) {
    moves[static_cast<size_t>(part[i])] = true;
    std::vector<Updated> row(dim);
    double largest[3] = {0, 0, 0};
    for (size_t d = 0; d < dim; ++d) {
      const double w = problem.weight[static_cast<size_t>(part[i]) * dim + d];
      row[d] = updated(plan.form, w, want.dw[i * dim + d]);
      largest[0] = std::max(largest[0], std::abs(row[d].weight));
      largest[1] = std::max(largest[1], std::abs(row[d].states[0]));
      largest[2] = std::max(largest[2], std::abs(row[d].states[1]));
    }
    const double wrong_g = bound * want.dw_size[i];  // an element of dW
    for (size_t d = 0; d < dim; ++d) {
      const size_t at = static_cast<size_t>(part[i]) * dim + d;
      const double g = want.dw[i * dim + d];
      const auto expect = [&](float found, double x, double slack, RowFormat format, double size, const char* what) {
        const double step = format_step(format, std::abs(x) + slack, size);
        ASSERT_TRUE(std::abs(static_cast<double>(found) - x) <= slack + step)
            << what << " " << part[i] << ", " << d << ": " << found << " for " << x << ", step " << step;
      };
      // Bound in f32: a few roundings of the sum, and the rounding of the gradient, which adamw and lamb divide by
      // about the size of the gradient.
      const double w = std::abs(static_cast<double>(problem.weight[at]));
      const bool divides = plan.form.states > 1;
      const double slack = 4e-7 * (w + std::abs(row[d].weight)) + 0.1 * wrong_g + (divides ? 1e-6 : 0);
      expect(got.weight[at], row[d].weight, slack, plan.weights, largest[0] * (1 + 1e-6) + slack, "weight");
      if (plan.form.states > 0) {
        expect(got.state[at], row[d].states[0], 4e-7 * (1 + w + std::abs(g)) + wrong_g, plan.states, 0, "state");
      }
      if (plan.form.states > 1) {
        expect(got.second_state[at], row[d].states[1], 1e-6 * row[d].states[1] + wrong_g * (std::abs(g) + wrong_g),
               plan.states, 0, "second state");
      }
    }
  }
  for (size_t at = 0; at < got.weight.size(); ++at) {
    if (!moves[at / dim]) {
      ASSERT_EQ(got.weight[at], problem.weight[at]) << "a class that takes no part stays as it is";
      ASSERT_EQ(got.state[at], kFirstState);
      ASSERT_EQ(got.second_state[at], kSecondState);
      ASSERT_EQ(got.dw[at], 0);
    }
  }
}

// Compares the result of a step with the oracle over the step's active classes. The weights of `problem` must be
// numbers of the plan's format. Returns the oracle's answer over these classes.
inline test::HeadAnswer expect_result(const test::HeadProblem& problem, const StepPlan& plan, const StepResult& got) {
  std::vector<int32_t> active = got.active;
  for (int32_t c = 0; plan.active == 0 && c < problem.classes; ++c) {
    active.push_back(c);
  }
  EXPECT_TRUE(std::is_sorted(active.begin(), active.end()));
  test::HeadProblem part = part_of(problem, active);
  for (size_t row = 0; row < part.labels.size(); ++row) {
    const bool has_target = problem.labels[row] >= 0 && problem.labels[row] < problem.classes;
    EXPECT_EQ(part.labels[row] >= 0, has_target) << "targets take part, row " << row;
  }
  part.target_logits = got.target;
  part.corrections.assign(got.corrections.begin(), got.corrections.end());
  const test::HeadAnswer want = solve(part);
  // The scale multiplies the rounding errors of a logit's operands. Cosines that lie in the middle between two f16 are
  // rounded from f32 in the head, and from f64 in the oracle.
  const double bound = problem.f16 && problem.form.cosine ? 1e-3
                       : problem.bf16                     ? 1e-2 * std::max(1.0, problem.margin.scale / 32)
                                                          : 1e-5 * std::max(1.0, problem.margin.scale / 16);
  expect_rows_near(got.loss, want.loss, want.loss_size, bound, "loss");
  expect_rows_near(got.dx, want.dx, want.dx_size, bound, "dX");
  // With one pass, the plain gradients are also compared.
  if (plan.pass_rows == problem.rows) {
    std::vector<float> dw;
    std::vector<float> db;
    std::vector<double> db_size;
    for (size_t i = 0; i < active.size(); ++i) {
      const auto at = got.dw.begin() + active[i] * problem.dim;
      dw.insert(dw.end(), at, at + problem.dim);
      if (problem.form.bias) {
        db.push_back(got.db[static_cast<size_t>(active[i])]);
      }
    }
    expect_rows_near(dw, want.dw, want.dw_size, bound, "dW");
    if (problem.form.bias) {
      EXPECT_LE(test::relative_error(db, want.db), bound);
    }
  }
  expect_updated_rows(problem, plan, got, active, want, bound);
  for (size_t row = 0; row < got.loss.size(); ++row) {
    const auto best = got.best.begin() + static_cast<int64_t>(row) * kTop;
    for (int64_t i = 0; i < kTop; ++i) {
      const bool found = std::binary_search(active.begin(), active.end(), best[i]);
      EXPECT_EQ(found, i < static_cast<int64_t>(active.size())) << "place " << i << " of row " << row;
    }
    if (part.labels[row] < 0) {
      EXPECT_EQ(got.loss[row], 0) << row;
      EXPECT_EQ(got.hit5[row], 0) << row;
    }
  }
  return want;
}

// Runs one step on the processor and compares it with the oracle.
inline test::HeadAnswer expect_step(const test::HeadProblem& problem, const StepPlan& plan) {
  return expect_result(problem, plan, run_step(problem, plan));
}

}  // namespace xrun::ops
