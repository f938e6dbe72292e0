// Helpers of infer functions: they make errors, each with a help text that says how to fix it, check operands and
// arguments, and build types.
#pragma once

#include <string>

#include "graph/op_def.h"

namespace xrun::ops {

// XG0301: shapes do not match. The message names both.
Error shape_error(std::string message, std::string help);
// XG0302: a tensor has the wrong number of dimensions.
Error rank_error(std::string_view op, std::string_view wanted, const TensorType& got, std::string help);
// XG0303: an argument is outside of the operator's range.
Error argument_error(std::string message, std::string help);
// XG0304: the operator does not accept the element type of a tensor.
Error dtype_error(std::string_view op, const TensorType& got, std::string help);

// Help texts for tensors with the wrong number of dimensions.
inline constexpr const char* kMakeFeatures = "put `flatten` or `global_avg_pool` before it";
inline constexpr const char* kMakeSequence =
    "put `flatten(2) -> transpose(1, 2)` before it to make a sequence of an image";
inline constexpr const char* kOneNumber = "put `reshape([N, 1])` before it: one number a sample is a feature";
inline constexpr const char* kOnePosition = "put `take(i)` or `mean(1)` before it to have one position of a sequence";

// Returns an error unless `x` is float, is not sharded, and has a batch dimension. The second function also expects an
// image.
Status expect_activation(std::string_view op, const TensorType& x);
Status expect_image(std::string_view op, const TensorType& x);  // [N, C, H, W]
// Returns an error unless the argument is in [low, high].
Status expect_range(std::string_view op, std::string_view argument, int64_t value, int64_t low, int64_t high);

TensorType with_dims(const TensorType& x, std::vector<int64_t> dims);
// The result of an operator with one output, which is like `x` but has these dimensions.
inline OpShape shape_as(const TensorType& x, std::vector<int64_t> dims) { return {{with_dims(x, std::move(dims))}}; }
TensorType weight_type(std::vector<int64_t> dims);                             // the type of an f32 parameter
ParamDecl param(std::string name, std::vector<int64_t> dims, Init init = {});  // f32, trained; initial values of 0

// Initial values of parameters.
inline constexpr Init kOnes{.value = 1};
inline constexpr Init kSmall{.kind = Init::kNormal, .value = 0.02};
constexpr Init he_normal(int64_t fan_in) { return {.kind = Init::kHeNormal, .fan_in = fan_in}; }

// Returns the dimension that an argument names; a negative argument counts from the end. Errors: XG0303 if there is no
// such dimension, or if it is the batch.
Result<int> axis_of(std::string_view op, const TensorType& x, int64_t axis);
// Returns the dimension that an argument names. REQUIRES: axis_of has accepted it.
inline int checked_axis(const TensorType& x, int64_t axis) {
  return static_cast<int>(axis < 0 ? axis + x.rank() : axis);
}

// The infer function of pointwise operators: one output with the type of the first input.
Result<OpShape> same_as_input(std::span<const TensorType> inputs, const Attrs& attrs);

// The infer function of operators whose attribute `dims` is the shape of their result.
Result<OpShape> infer_dims(std::span<const TensorType> inputs, const Attrs& attrs);

// Returns the number of elements of a tensor in a row block of `rows` rows.
int64_t block_elements(const TensorType& type, int64_t rows);

// pointwise_cost is the cost per sample of an operator that reads and writes all operands with a batch once and has
// `flops` flops per element of the first output. traffic returns only the bytes.
OpCost pointwise_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, double flops);
Bytes traffic(std::span<const TensorType> inputs, std::span<const TensorType> outputs);

}  // namespace xrun::ops
