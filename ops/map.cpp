// map: a scalar expression on each element of its operands, which broadcast. The `pointwise` functions of the language,
// and signs and functions of tensors that have no operator of their own, are calls of it; so is its gradient, with a
// result for each operand. `param.sum` is the gradient of an operand that is a parameter.
#include <algorithm>
#include <array>

#include "graph/scalar_expr.h"
#include "ops/broadcast_loop.h"
#include "ops/catalog.h"
#include "ops/columns.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/shard.h"
#include "ops/strides.h"

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
                          "make the file anew: functions are written by xrun");
  }
  XRUN_ASSIGN(const TensorType out, broadcast("combine", inputs));
  return OpShape{.outputs = std::vector(expr.results().size(), out)};
}

OpCost cost_map(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs& attrs) {
  const auto expr = parse_scalar_expr(attrs.text("y"));
  return pointwise_cost(inputs, outputs, expr.ok() ? static_cast<double>(expr->operations()) : 1);
}

// One node with the gradients of all operands that have one.
Status grad_map(GradBuilder& builder) {
  XRUN_ASSIGN(const ScalarExpr expr, parse_scalar_expr(builder.node().attrs.text("y")));
  const int count = builder.input_count();
  std::vector<int> wanted;
  for (int i = 0; i < count; ++i) {
    if (builder.wanted(i)) {
      wanted.push_back(i);
    }
  }
  ScalarExpr gradient = gradient_of(expr, count, wanted);
  std::vector<ScalarId> results;
  std::vector<int> owners;
  const ScalarId dy = gradient.input(count);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const ScalarId result = gradient.results()[i];
    if (result == dy) {
      XRUN_TRY(set_broadcast_grad(builder, wanted[i], builder.output_grad(0)));
    } else if (gradient.constant_of(result) == nullptr) {  // else it is 0
      results.push_back(result);
      owners.push_back(wanted[i]);
    }
  }
  if (results.empty()) {
    return {};
  }
  gradient.set_results(std::move(results));
  // Operands that no derivative reads are not kept until then.
  const std::vector<int> read = gradient.inputs_read();
  std::vector<ValueId> inputs;
  ScalarExpr made;
  std::vector<ScalarId> places(static_cast<size_t>(count) + 1);
  for (const int input : read) {
    places[static_cast<size_t>(input)] = made.input(static_cast<int>(inputs.size()));
    inputs.push_back(input == count ? builder.output_grad(0) : builder.input(input));
  }
  for (ScalarId& place : places) {
    place = place.valid() ? place : made.input(0);  // not read
  }
  made.set_results(made.insert(gradient, places));
  XRUN_ASSIGN(const std::vector<ValueId> grads, builder.emit("map", std::move(inputs), Attrs{{"y", to_text(made)}}));
  for (size_t i = 0; i < owners.size(); ++i) {
    XRUN_TRY(set_broadcast_grad(builder, owners[i], grads[i]));
  }
  return {};
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

// Adds into the accumulator of a parameter: over the samples, and where the parameter was broadcast.
Result<OpShape> infer_param_sum(std::span<const TensorType>, const Attrs& attrs) {
  return OpShape{.outputs = {weight_type(attrs.integers("dims"))}};
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_param_sum(const KernelSpec& spec) {
  const TensorType& x = spec.inputs[0];
  const int64_t outputs = block_elements(spec.outputs[0], spec.rows);
  // A parameter of the last dimension of features: sums of columns.
  if (x.rank() <= 3 && spec.outputs[0].rank() == 1 && x.dims.back() == outputs) {
    const int64_t rows = block_elements(x, spec.rows) / outputs;
    return kernel_of([isa = spec.isa, rows, outputs](const KernelCall& call) {
      add_column_sums(isa, call.inputs[0].as<T>(), rows, outputs, call.outputs[0].as<float>());
    });
  }
  const std::vector<int64_t> dims = block_dims(x, spec.rows);
  const StridedLoop<2> loops(
      dims, {block_strides(x, spec.rows), broadcast_strides(aligned(spec.outputs[0], x.rank()), dims, spec.rows)});
  return kernel_of(
      [outputs, loops](const KernelCall& call) {
        auto* const sums = reinterpret_cast<double*>(call.scratch);
        std::fill_n(sums, outputs, 0.0);
        const T* const from = call.inputs[0].as<T>();
        const auto& steps = loops.inner_steps();
        loops.for_each_run([&](const auto& at) {
          for (int64_t i = 0; i < loops.inner_count(); ++i) {
            sums[at[1] + i * steps[1]] += static_cast<double>(to_float(from[at[0] + i * steps[0]]));
          }
        });
        float* const y = call.outputs[0].as<float>();
        for (int64_t i = 0; i < outputs; ++i) {
          y[i] += static_cast<float>(sums[i]);
        }
      },
      outputs * static_cast<Bytes>(sizeof(double)));
}

constexpr Op kParamSum{
    .def = {.name = "param.sum",
            .signature = "(x: [N, ...])",
            .group = "pointwise",
            .doc = "sum over the samples, and over the dimensions in which a parameter was broadcast",
            .rows = RowProperty::kReduces,
            .infer = infer_param_sum,
            .shard_of = shard_broadcast},
    .cpu = by_dtype<make_param_sum<float>, make_param_sum<Bf16>>};

constexpr std::array<const Op*, 2> kOps{&kMap, &kParamSum};

}  // namespace

std::span<const Op* const> map_ops() { return kOps; }

}  // namespace xrun::ops
