// map applies a scalar expression to each element of its operands, which broadcast. It computes the `pointwise`
// functions of the language, and the signs and functions of tensors that have no operator of their own. Its gradient is
// also a map, with a result for each operand.
// Tests: tests/ops/conformance_test.cpp
#include "ops/elementwise/map.h"

#include <algorithm>
#include <array>

#include "graph/passes/autodiff.h"
#include "graph/types/scalar_expr.h"
#include "ops/catalog.h"
#include "ops/loops/broadcast.h"
#include "ops/loops/broadcast_loop.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/shard.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_map(std::span<const TensorType> inputs, const Attrs& attrs) {
  XRUN_ASSIGN(const ScalarExpr expr, parse_scalar_expr(attrs.text("y")));
  if (inputs.empty() || inputs.size() > 2 * kMostScalarInputs ||
      inputs.size() + expr.results().size() > kMostOperands) {
    return argument_error("an element-wise function reads " + std::to_string(inputs.size()) + " tensors",
                          "write it as several functions of 1 to " + std::to_string(kMostScalarInputs) + " tensors");
  }
  const std::vector<int> read = expr.inputs_read();
  if (expr.operations() > kMostDerivedScalarOps || (!read.empty() && read.back() >= static_cast<int>(inputs.size()))) {
    return argument_error("`map` has a function of more inputs or operations than it can have",
                          "make the file again: xrun writes its functions");
  }
  XRUN_ASSIGN(const TensorType out, broadcast("combine", inputs));
  return OpShape{.outputs = std::vector(expr.results().size(), out)};
}

OpCost cost_map(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs) {
  const auto expr = parse_scalar_expr(attrs.text("y"));
  return pointwise_cost(inputs, outputs, expr.ok() ? static_cast<double>(expr->operations()) : 1);
}

Status grad_map(GradBuilder& builder) {
  XRUN_ASSIGN(const ScalarExpr expr, parse_scalar_expr(builder.node().attrs.text("y")));
  return set_function_grads(builder, expr, builder.output_grad(0), nullptr);
}

Result<std::unique_ptr<Kernel>> make_map(const KernelSpec& spec) {
  XRUN_ASSIGN(ScalarExpr expr, parse_scalar_expr(spec.attrs.text("y")));
  BroadcastLoop loop(spec, std::move(expr));
  const int64_t elements = loop.elements();
  const Bytes scratch = loop.scratch_bytes();
  return kernel_over(
      elements, kElementRun, [loop = std::move(loop)](const KernelCall& call, Range some) { loop.run(call, some); },
      scratch);
}

constexpr Op kMap{.def = {.name = "map",
                          .signature = "(x: [N, ...])",
                          .group = "pointwise",
                          .doc = "a function of numbers, element by element",
                          .variadic = true,
                          .internal = true,
                          .infer = infer_map,
                          .cost = cost_map,
                          .expr = [](const Attrs& attrs) { return attrs.text("y"); },
                          .fuses = true,
                          .grad = grad_map,
                          .shard_of = shard_broadcast},
                  .cpu = make_map};

constexpr std::array<const Op*, 1> kOps{&kMap};

}  // namespace

std::vector<int> wanted_inputs(const GradBuilder& builder) {
  std::vector<int> wanted;
  for (int i = 0; i < builder.input_count(); ++i) {
    if (builder.wanted(i)) {
      wanted.push_back(i);
    }
  }
  return wanted;
}

Status set_function_grads(GradBuilder& builder, const ScalarExpr& function, ValueId dy, const ScalarExpr* seed) {
  const int count = builder.input_count();
  const std::vector<int> wanted = wanted_inputs(builder);
  ScalarExpr gradient = gradient_of(function, count, wanted);
  std::vector<ScalarId> results;
  std::vector<int> owners;
  const ScalarId passed = gradient.input(count);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const ScalarId result = gradient.results()[i];
    if (result == passed && seed == nullptr) {
      XRUN_TRY(set_broadcast_grad(builder, wanted[i], dy));
    } else if (gradient.constant_of(result) == nullptr) {  // constant gradients are 0 and need no node
      results.push_back(result);
      owners.push_back(wanted[i]);
    }
  }
  if (results.empty()) {
    return {};
  }
  gradient.set_results(std::move(results));
  // The gradient reads only the operands that it needs, so that the others need not be kept for the backward pass.
  std::vector<ValueId> inputs;
  ScalarExpr made;
  std::vector<ScalarId> places(static_cast<size_t>(count) + 1);
  for (const int input : gradient.inputs_read()) {
    const ScalarId at = made.input(static_cast<int>(inputs.size()));
    const bool seeded = input == count && seed != nullptr;
    places[static_cast<size_t>(input)] = seeded ? made.insert(*seed, std::array{at})[0] : at;
    inputs.push_back(input == count ? dy : builder.input(input));
  }
  for (ScalarId& place : places) {
    place = place.valid() ? place : made.input(0);  // a placeholder that is never read
  }
  made.set_results(made.insert(gradient, places));
  XRUN_ASSIGN(const std::vector<ValueId> grads, builder.emit("map", std::move(inputs), Attrs{{"y", to_text(made)}}));
  for (size_t i = 0; i < owners.size(); ++i) {
    XRUN_TRY(set_broadcast_grad(builder, owners[i], grads[i]));
  }
  return {};
}

std::span<const Op* const> map_ops() { return kOps; }

}  // namespace xrun::ops
