#include "ops/loops/broadcast.h"

#include <algorithm>

#include "ops/shape.h"

namespace xrun::ops {

TensorType aligned(const TensorType& operand, int rank) {
  TensorType wide = operand;
  wide.dims.insert(wide.dims.begin(), static_cast<size_t>(rank - operand.rank()), 1);
  return wide;
}

Result<TensorType> broadcast(std::string_view verb, std::span<const TensorType> operands) {
  const auto first = std::ranges::find_if(operands, &TensorType::has_batch);
  if (first == operands.end()) {
    return rank_error(verb, "a tensor of the batch in addition to the parameters", operands[0],
                      "combine each parameter with a tensor of the batch: x * gamma, or a `pointwise` of both");
  }
  XRUN_TRY(expect_activation(verb, *first));
  TensorType out = with_dims(*first, first->dims);
  for (const TensorType& operand : operands) {
    const std::string both = to_text(*first) + " and " + to_text(operand);
    if (operand.has_batch()) {
      XRUN_TRY(expect_activation(verb, operand));
      if (operand.dtype != out.dtype) {
        return dtype_error(verb, operand, "give all operands one element type");
      }
    }
    if (operand.has_batch() ? operand.rank() != out.rank() : operand.rank() > out.rank()) {
      return shape_error("cannot " + std::string(verb) + " tensors of different ranks: " + both,
                         "ranks must match; `reshape` can add dimensions of 1");
    }
    const std::vector<int64_t> dims = aligned(operand, out.rank()).dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] != out.dims[i] && dims[i] != 1 && out.dims[i] != 1) {
        return shape_error("cannot " + std::string(verb) + " tensors of different shapes: " + both,
                           "dimensions must be equal or 1");
      }
      out.dims[i] = out.dims[i] == 1 ? dims[i] : out.dims[i];
    }
  }
  return out;
}

Status set_broadcast_grad(GradBuilder& builder, int input, ValueId grad) {
  const TensorType& type = builder.type(builder.input(input));
  if (!type.has_batch()) {
    XRUN_ASSIGN(const std::vector<ValueId> sum, builder.emit("param.sum", {grad}, Attrs{{"dims", type.dims}}));
    grad = sum[0];
  } else if (builder.type(grad).dims != type.dims) {
    XRUN_ASSIGN(const std::vector<ValueId> sum, builder.emit("add.sum", {grad}, Attrs{{"dims", type.dims}}));
    grad = sum[0];
  }
  builder.set_grad(input, grad);
  return {};
}

}  // namespace xrun::ops
