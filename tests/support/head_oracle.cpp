#include "tests/support/head_oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "graph/types/scalar_expr.h"

namespace xrun::test {

namespace {

constexpr double kSmallestNorm = 1e-12;
constexpr double kSmallestExp = 1e-28;  // smaller values lose bits in f32 and then become 0

// Returns the value that products read: in f32 the value itself, and in bf16 and f16 the nearest such number to its
// f32.
double rounded(double x, const HeadProblem& problem) {
  if (problem.f16) {
    return apply(ScalarOp::kF16, x);
  }
  if (!problem.bf16) {
    return x;
  }
  auto f = static_cast<float>(x);
  uint32_t u = 0;
  std::memcpy(&u, &f, sizeof u);
  u = (u + 0x7FFFU + ((u >> 16) & 1U)) & 0xFFFF0000U;
  std::memcpy(&f, &u, sizeof f);
  return f;
}

// Rows with their norms, which are normalised if the head uses cosines.
struct Operand {
  std::vector<double> plain;    // normalised, not rounded
  std::vector<double> rounded;  // the values that products read
  std::vector<double> norm;
  std::vector<double> size;  // norms of the values that products read
};

Operand operand(const std::vector<float>& values, int64_t rows, int64_t dim, const HeadProblem& problem) {
  const bool cosine = problem.form.cosine;
  Operand made;
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (int64_t d = 0; d < dim; ++d) {
      const double x = values[static_cast<size_t>(r * dim + d)];
      squares += x * x;
    }
    made.norm.push_back(cosine ? std::max(std::sqrt(squares), kSmallestNorm) : 1);
    double read = 0;
    for (int64_t d = 0; d < dim; ++d) {
      made.plain.push_back(values[static_cast<size_t>(r * dim + d)] / made.norm.back());
      made.rounded.push_back(rounded(made.plain.back(), problem));
      read += made.rounded.back() * made.rounded.back();
    }
    made.size.push_back(std::sqrt(read));
  }
  return made;
}

struct Psi {
  double value;
  double slope;
};

Psi psi(const MarginForm& form, double x) {
  const bool angular = form.m1 != 1 || form.m2 != 0;
  if ((form.easy && x <= 0)) {
    return {x, 1};
  }
  if (!angular) {
    return {x - form.m3, 1};
  }
  const double inside = std::min(std::max(x, -1 + 1e-7), 1 - 1e-7);
  const double phi = form.m1 * std::acos(form.grad == MarginGrad::kExact ? x : inside) + form.m2;
  const double root = std::sqrt(1 - inside * inside);
  switch (form.grad) {
    case MarginGrad::kExact:
      return {std::cos(phi) - form.m3, form.m1 * std::sin(phi) / root};
    case MarginGrad::kThreshold:
      if (phi > std::numbers::pi) {
        return {x - form.m2 * std::sin(std::numbers::pi - form.m2) - form.m3, 1};
      }
      break;
    default:
      break;
  }
  const double value = (phi <= std::numbers::pi ? std::cos(phi) : -2 - std::cos(phi)) - form.m3;
  if (form.grad == MarginGrad::kStraight) {
    return {value, 1};
  }
  return {value, form.m1 * std::fabs(std::sin(phi)) / std::max(root, 1e-3)};
}

// Applies the gradient of the division by the norm: (g - (g · u) u) / norm for each row, or g / norm if the norm was
// replaced by the smallest divisor.
void unnormalise(std::vector<double>& gradient, const Operand& of, int64_t dim) {
  for (size_t r = 0; r < of.norm.size(); ++r) {
    double along = 0;
    for (size_t d = r * static_cast<size_t>(dim); of.norm[r] > kSmallestNorm && d < (r + 1) * static_cast<size_t>(dim);
         ++d) {
      along += gradient[d] * of.plain[d];
    }
    for (size_t d = r * static_cast<size_t>(dim); d < (r + 1) * static_cast<size_t>(dim); ++d) {
      gradient[d] = (gradient[d] - along * of.plain[d]) / of.norm[r];
    }
  }
}

}  // namespace

HeadAnswer solve(const HeadProblem& problem) {
  const int64_t classes = problem.classes;
  const int64_t dim = problem.dim;
  const bool cosine = problem.form.cosine;
  const Operand x = operand(problem.features, problem.rows, dim, problem);
  const Operand w = operand(problem.weight, classes, dim, problem);
  HeadAnswer answer;
  answer.dx.resize(x.plain.size());
  answer.dw.resize(w.plain.size());
  answer.db.resize(static_cast<size_t>(classes));
  answer.dx_size.resize(x.norm.size());
  answer.dw_size.resize(w.norm.size());
  const double smoothing = problem.margin.smoothing;
  const double scale = problem.margin.scale;
  for (int64_t r = 0; r < problem.rows; ++r) {
    std::vector<double> z(static_cast<size_t>(classes));
    for (int64_t c = 0; c < classes; ++c) {
      double sum = 0;
      for (int64_t d = 0; d < dim; ++d) {
        sum += x.rounded[static_cast<size_t>(r * dim + d)] * w.rounded[static_cast<size_t>(c * dim + d)];
      }
      sum += problem.bias.empty() ? 0 : problem.bias[static_cast<size_t>(c)];
      sum = cosine ? std::clamp(sum, -1.0, 1.0) : sum;
      answer.logits.push_back(sum);
      z[static_cast<size_t>(c)] = scale * sum;
    }
    if (const int32_t number = problem.labels[static_cast<size_t>(r)]; number < 0 || number >= classes) {
      answer.loss.push_back(0);
      answer.loss_size.push_back(0);
      continue;
    }
    const auto label = static_cast<size_t>(problem.labels[static_cast<size_t>(r)]);
    const double seen =
        problem.target_logits.empty() ? z[label] / scale : problem.target_logits[static_cast<size_t>(r)];
    const Psi target = psi(problem.margin, seen);
    z[label] = scale * target.value;
    std::vector<bool> filtered(static_cast<size_t>(classes));
    for (size_t c = 0; c < z.size(); ++c) {
      if (c != label) {
        filtered[c] = problem.margin.filter < 1 && z[c] > scale * problem.margin.filter;
        z[c] = (filtered[c] ? 0 : z[c]) + (problem.corrections.empty() ? 0 : problem.corrections[c]);
      }
    }
    const double max = *std::max_element(z.begin(), z.end());
    double sum = 0;
    double total = 0;
    for (const double v : z) {
      sum += std::exp(v - max);
      total += v;
    }
    const double lse = max + std::log(sum);
    const double factor = problem.factors.empty() ? 1 : problem.factors[static_cast<size_t>(r)];
    answer.loss.push_back(factor *
                          (lse - (1 - smoothing) * z[label] - smoothing * total / static_cast<double>(classes)));
    answer.loss_size.push_back(
        factor * (std::fabs(lse) + std::fabs(z[label]) + smoothing * std::fabs(total) / static_cast<double>(classes)));
    // The slope of the margin scales the part of the target's gradient that is perpendicular to the class weight.
    const double steep = cosine ? target.slope * std::sqrt(std::max(0.0, 1 - seen * seen)) : 0;
    for (int64_t c = 0; c < classes; ++c) {
      const bool is_target = static_cast<size_t>(c) == label;
      const double p = std::exp(z[static_cast<size_t>(c)] - lse);
      const double outer =
          // The factor of the gradient with respect to the class's psi.
          filtered[static_cast<size_t>(c)] ? 0 : scale * problem.row_weight * factor;
      const double smooth = smoothing / static_cast<double>(classes);
      const double g = (p - (is_target ? 1 - smoothing : 0) - smooth) * outer * (is_target ? target.slope : 1);
      const double size =
          (std::max(p, kSmallestExp) + (is_target ? 1 - smoothing : 0) + smooth) * outer * (is_target ? 1 + steep : 1);
      answer.dx_size[static_cast<size_t>(r)] += size * w.size[static_cast<size_t>(c)];
      answer.dw_size[static_cast<size_t>(c)] += size * x.size[static_cast<size_t>(r)];
      answer.db[static_cast<size_t>(c)] += g;
      for (int64_t d = 0; d < dim; ++d) {
        answer.dx[static_cast<size_t>(r * dim + d)] += g * w.rounded[static_cast<size_t>(c * dim + d)];
        answer.dw[static_cast<size_t>(c * dim + d)] += g * x.rounded[static_cast<size_t>(r * dim + d)];
      }
    }
  }
  if (cosine) {
    unnormalise(answer.dx, x, dim);
    unnormalise(answer.dw, w, dim);
  }
  for (size_t r = 0; r < x.norm.size(); ++r) {
    answer.dx_size[r] /= x.norm[r];
  }
  for (size_t c = 0; c < w.norm.size(); ++c) {
    answer.dw_size[c] /= w.norm[c];
  }
  return answer;
}

double relative_error(const std::vector<float>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) {
    return INFINITY;
  }
  double wrong = 0;
  double size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    wrong += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(wrong) / std::max(std::sqrt(size), 1e-30);
}

}  // namespace xrun::test
