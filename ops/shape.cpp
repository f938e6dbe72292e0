// Tests: tests/graph/infer_test.cpp
#include "ops/shape.h"

#include <utility>

namespace xrun::ops {

Error shape_error(std::string message, std::string help) {
  return Error{ErrorKind::kContent, "XG0301", std::move(message), std::move(help)};
}

Error rank_error(std::string_view op, std::string_view wanted, const TensorType& got, std::string help) {
  return Error{ErrorKind::kContent, "XG0302",
               "`" + std::string(op) + "` takes " + std::string(wanted) + ", not " + to_text(got), std::move(help)};
}

Error argument_error(std::string message, std::string help) {
  return Error{ErrorKind::kContent, "XG0303", std::move(message), std::move(help)};
}

Error dtype_error(std::string_view op, const TensorType& got, std::string help) {
  return Error{ErrorKind::kContent, "XG0304",
               "`" + std::string(op) + "` computes with f32, bf16 or f16, not " + to_text(got), std::move(help)};
}

Status expect_activation(std::string_view op, const TensorType& x) {
  if (x.sharded) {
    return Error{ErrorKind::kContent, "XG0305",
                 "`" + std::string(op) + "` needs all columns of " + to_text(x) + " in one place",
                 "losses, `accuracy` and `topk` reduce inside each shard"};
  }
  if (!x.has_batch()) {
    return rank_error(op, "a tensor with a batch dimension", x, "begin its type with N");
  }
  if (x.classes > 0 || !is_computed(x.dtype)) {
    return dtype_error(
        op, x, x.classes > 0 ? "put `embed` before it to make features of class numbers" : "declare the input as f32");
  }
  return {};
}

Status expect_image(std::string_view op, const TensorType& x) {
  XRUN_TRY(expect_activation(op, x));
  if (x.rank() != 4) {
    return rank_error(op, "an image [N, C, H, W]", x, "put `reshape([N, C, H, W])` before it to make an image");
  }
  return {};
}

Status expect_range(std::string_view op, std::string_view argument, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    return argument_error("`" + std::string(op) + "` has " + std::string(argument) + " = " + std::to_string(value) +
                              ", outside " + std::to_string(low) + ".." + std::to_string(high),
                          "keep it in " + std::to_string(low) + " .. " + std::to_string(high));
  }
  return {};
}

TensorType with_dims(const TensorType& x, std::vector<int64_t> dims) {
  TensorType type;
  type.dtype = x.dtype;
  type.dims = std::move(dims);
  return type;
}

TensorType weight_type(std::vector<int64_t> dims) {
  TensorType type;
  type.dims = std::move(dims);
  return type;
}

ParamDecl param(std::string name, std::vector<int64_t> dims, Init init) {
  return {.name = std::move(name), .type = weight_type(std::move(dims)), .init = init};
}

Result<int> axis_of(std::string_view op, const TensorType& x, int64_t axis) {
  const int64_t from_start = axis < 0 ? axis + x.rank() : axis;
  if (from_start < 0 || from_start >= x.rank()) {
    return argument_error("`" + std::string(op) + "` has axis = " + std::to_string(axis) + ", but " + to_text(x) +
                              " has " + std::to_string(x.rank()) + " dimensions",
                          x.rank() > 1 ? "write 1 to " + std::to_string(x.rank() - 1) + ", or -1 for the last one"
                                       : "give it a tensor with more dimensions than the batch");
  }
  if (from_start == 0) {
    return argument_error("`" + std::string(op) + "` over axis 0 would mix the samples of a batch",
                          "write an axis of 1 or more, or a negative one");
  }
  return static_cast<int>(from_start);
}

Result<OpShape> same_as_input(std::span<const TensorType> inputs, const Attrs& /*attrs*/) {
  return OpShape{{with_dims(inputs[0], inputs[0].dims)}};
}

Result<OpShape> infer_dims(std::span<const TensorType> inputs, const Attrs& attrs) {
  return OpShape{{with_dims(inputs[0], attrs.integers("dims"))}};
}

int64_t block_elements(const TensorType& type, int64_t rows) { return type.elements(rows, rows); }

Bytes traffic(std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  Bytes bytes = 0;
  for (const auto& list : {inputs, outputs}) {
    for (const TensorType& type : list) {
      bytes += type.has_batch() ? type.row_elements() * size_of(type.dtype) : 0;
    }
  }
  return bytes;
}

OpCost pointwise_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, double flops) {
  return {.flops = flops * static_cast<double>(outputs[0].row_elements()), .bytes = traffic(inputs, outputs)};
}

}  // namespace xrun::ops
