#include "ops/head/margin.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "graph/types/scalar_expr.h"

namespace xrun::ops {

namespace {

constexpr double kEdge = 1e-7;  // least distance of x from ±1, where slopes diverge
constexpr double kSmallestSine = 1e-3;

// cos(phi) for phi in 0 .. pi, continued beyond both ends by shifted copies of itself, so that it decreases everywhere
// with the slope -|sin(phi)|.
double falling_cosine(double phi) {
  const double piece = std::ceil(phi / std::numbers::pi) - 1;  // phi = pi still belongs to piece 0
  const double cosine = std::cos(phi);
  return std::fmod(piece, 2) == 0 ? cosine - 2 * piece : -cosine - 2 * piece;
}

Margin angular_margin(const MarginForm& form, double x) {
  const double inside = std::clamp(x, -1 + kEdge, 1 - kEdge);
  if (form.grad == MarginGrad::kExact) {
    const double phi = form.m1 * std::acos(x) + form.m2;
    return {std::cos(phi) - form.m3, form.m1 * std::sin(phi) / std::sqrt(1 - inside * inside)};
  }
  const double phi = form.m1 * std::acos(inside) + form.m2;
  const double sine = std::max(std::sqrt(1 - inside * inside), kSmallestSine);
  if (form.grad == MarginGrad::kThreshold && phi > std::numbers::pi) {
    return {x - form.m2 * std::sin(form.m2) - form.m3, 1};
  }
  const double psi = falling_cosine(phi) - form.m3;
  return {psi, form.grad == MarginGrad::kStraight ? 1 : form.m1 * std::abs(std::sin(phi)) / sine};
}

Margin own_margin(const ScalarExpr& own, double x) {
  const double inputs[] = {std::clamp(x, -1.0, 1.0)};
  std::array<double, kMostMarginNodes> values;
  evaluate(own, inputs, values);
  const auto result = [&](size_t i) { return values[static_cast<size_t>(own.results()[i].index)]; };
  return {result(0), result(1)};
}

}  // namespace

Margin margin_of(const MarginForm& form, double x) {
  if (form.own != nullptr) {
    return own_margin(*form.own, x);
  }
  if (form.easy && x <= 0) {
    return {x, 1};
  }
  return form.angular() ? angular_margin(form, x) : Margin{x - form.m3, 1};
}

double target_gradient(const MarginForm& form, double classes, double probability) {
  return (probability - (1 - form.smoothing) - form.smoothing / classes) * form.scale;
}

}  // namespace xrun::ops
