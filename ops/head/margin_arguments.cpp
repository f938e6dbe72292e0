// Tests: tests/ops/head/head_ops_test.cpp
#include "ops/head/margin_arguments.h"

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/types/scalar_expr.h"
#include "ops/head/margin.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<MarginForm> checked(std::string_view op, const MarginForm& form) {
  const auto refuse = [&](std::string_view argument, double value, std::string_view wanted) {
    return argument_error("`" + std::string(op) + "` has " + std::string(argument) + " = " + to_text(AttrValue(value)),
                          std::string(wanted));
  };
  if (!(form.scale > 0) || form.scale > 1e4) {
    return refuse("scale", form.scale, "write a scale above 0 and at most 10000");
  }
  if (!(form.smoothing >= 0) || form.smoothing >= 1) {
    return refuse("smoothing", form.smoothing, "write a smoothing of at least 0 and below 1");
  }
  if (!(form.m1 > 0) || form.m1 > 4) {
    return refuse("m1", form.m1, "write a factor of the angle above 0 and at most 4");
  }
  // m2 is the margin of an angle and m3 the margin of a cosine. Operators that have only one of them call its argument
  // `margin`.
  const bool combined = op == "combined_margin";
  if (!(std::abs(form.m2) <= 3.2)) {
    return refuse(combined ? "m2" : "margin", form.m2, "write a margin of the angle in -3.2 .. 3.2, in radians");
  }
  if (!(std::abs(form.m3) <= 2)) {
    return refuse(combined ? "m3" : "margin", form.m3, "write a margin of the cosine in -2 .. 2");
  }
  if (!(form.filter > 0) || form.filter > 1) {
    return refuse("filter", form.filter, "write a cosine above 0 and at most 1, above which other classes count as 0");
  }
  return form;
}

}  // namespace

Result<MarginForm> ce_margin(const Attrs& attrs) {
  return checked(
      "softmax_ce",
      {.scale = attrs.real("scale", 1), .smoothing = attrs.real("smoothing", 0), .filter = attrs.real("filter", 1)});
}

Result<MarginForm> arcface_margin(const Attrs& attrs) {
  MarginForm form{.scale = attrs.real("scale", 64),
                  .m2 = attrs.real("margin", 0.5),
                  .filter = attrs.real("filter", 1),
                  .easy = attrs.flag("easy", false)};
  const std::string variant = attrs.has("margin_grad") ? attrs.text("margin_grad") : "capped";
  constexpr std::array<std::pair<std::string_view, MarginGrad>, 4> kVariants{{{"capped", MarginGrad::kCapped},
                                                                              {"exact", MarginGrad::kExact},
                                                                              {"straight", MarginGrad::kStraight},
                                                                              {"threshold", MarginGrad::kThreshold}}};
  for (const auto& [name, grad] : kVariants) {
    if (name == variant) {
      form.grad = grad;
      return checked("arcface", form);
    }
  }
  return argument_error("`arcface` has margin_grad = " + variant, "use capped, exact, straight or threshold");
}

Result<MarginForm> cosface_margin(const Attrs& attrs) {
  return checked(
      "cosface",
      {.scale = attrs.real("scale", 64), .m3 = attrs.real("margin", 0.4), .filter = attrs.real("filter", 1)});
}

Result<MarginForm> combined_margin(const Attrs& attrs) {
  return checked("combined_margin", {.scale = attrs.real("scale"),
                                     .m1 = attrs.real("m1"),
                                     .m2 = attrs.real("m2"),
                                     .m3 = attrs.real("m3"),
                                     .filter = attrs.real("filter", 1)});
}

Result<MarginForm> own_margin(const Attrs& attrs) {
  XRUN_ASSIGN(const ScalarExpr psi, parse_scalar_expr(attrs.text("f")));
  const std::vector<int> read = psi.inputs_read();
  if (psi.results().size() != 1 || read != std::vector{0}) {
    return argument_error("the margin of `margin_softmax` is a function of one number, the target's cosine",
                          "write a `pointwise` that computes with its first parameter");
  }
  const int wanted[] = {0};
  const ScalarExpr gradient = gradient_of(psi, 1, wanted);
  ScalarExpr both;
  const ScalarId x[] = {both.input(0), both.constant(1)};
  std::vector<ScalarId> results = both.insert(psi, x);
  results.push_back(both.insert(gradient, x)[0]);
  both.set_results(std::move(results));
  XRUN_ASSIGN(const MarginForm form,
              checked("margin_softmax", {.scale = attrs.real("scale", 64), .filter = attrs.real("filter", 1)}));
  if (both.nodes().size() > kMostMarginNodes) {
    return argument_error("the margin of `margin_softmax` has too many operations",
                          "write it with at most " + std::to_string(kMostMarginNodes / 4));
  }
  MarginForm made = form;
  made.own = std::make_shared<const ScalarExpr>(std::move(both));
  return made;
}

}  // namespace xrun::ops
