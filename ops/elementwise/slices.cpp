// Operators that copy parts of tensors and compute nothing: concat, slice, split and pad.
// Tests: tests/ops/conformance_test.cpp
#include <string>
#include <utility>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/loops/copies.h"
#include "ops/loops/strides.h"
#include "ops/shape.h"
#include "ops/shard.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_concat(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& first = inputs[0];
  XRUN_TRY(expect_activation("concat", first));
  XRUN_ASSIGN(const int axis, axis_of("concat", first, attrs.integer("axis")));
  std::vector<int64_t> dims = first.dims;
  for (const TensorType& x : inputs.subspan(1)) {
    XRUN_TRY(expect_activation("concat", x));
    TensorType same = x;
    if (x.rank() == first.rank()) {
      same.dims[static_cast<size_t>(axis)] = first.dims[static_cast<size_t>(axis)];
    }
    if (same.dims != first.dims || x.dtype != first.dtype) {
      return shape_error(
          "`concat` over axis " + std::to_string(axis) + " cannot join " + to_text(first) + " and " + to_text(x),
          "bring all other dimensions to one size");
    }
    dims[static_cast<size_t>(axis)] += x.dims[static_cast<size_t>(axis)];
  }
  return shape_as(first, std::move(dims));
}

Status grad_concat(GradBuilder& builder) {
  const TensorType& first = builder.type(builder.input(0));
  const int axis = checked_axis(first, builder.node().attrs.integer("axis"));
  int64_t begin = 0;
  for (int i = 0; i < builder.input_count(); ++i) {
    const int64_t end = begin + builder.type(builder.input(i)).dims[static_cast<size_t>(axis)];
    XRUN_TRY(builder.set_grad_by(i, "slice", {builder.output_grad(0)},
                                 Attrs{{"axis", int64_t{axis}}, {"begin", begin}, {"end", end}}));
    begin = end;
  }
  return {};
}

Copies copies_of_concat(const KernelSpec& spec) {
  Copies all;
  const TensorType& y = spec.outputs[0];
  const auto axis = static_cast<size_t>(checked_axis(y, spec.attrs.integer("axis")));
  const std::vector<int64_t> target = block_strides(y, spec.rows);
  int64_t at = 0;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const TensorType& x = spec.inputs[i];
    all.copies.push_back({.input = static_cast<int>(i),
                          .to = at * target[axis],
                          .loop = StridedLoop<2>(block_dims(x, spec.rows), {target, block_strides(x, spec.rows)})});
    at += x.dims[axis];
  }
  return all;
}

// slice(axis, begin, end) keeps the positions begin .. end - 1 of a dimension.
Result<OpShape> infer_slice(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_activation("slice", x));
  XRUN_ASSIGN(const int axis, axis_of("slice", x, attrs.integer("axis")));
  const int64_t size = x.dims[static_cast<size_t>(axis)];
  XRUN_TRY(expect_range("slice", "begin", attrs.integer("begin"), 0, size - 1));
  XRUN_TRY(expect_range("slice", "end", attrs.integer("end"), attrs.integer("begin") + 1, size));
  std::vector<int64_t> dims = x.dims;
  dims[static_cast<size_t>(axis)] = attrs.integer("end") - attrs.integer("begin");
  return shape_as(x, std::move(dims));
}

Status grad_slice(GradBuilder& builder) {
  Attrs attrs = builder.node().attrs;
  attrs.set("dims", builder.type(builder.input(0)).dims);
  return builder.set_grads_by("slice.grad", {builder.output_grad(0)}, attrs);
}

// Returns the offset of the first element of the slice in a tensor with `strides`.
int64_t begin_of_slice(const KernelSpec& spec, const TensorType& x, const std::vector<int64_t>& strides) {
  return spec.attrs.integer("begin") * strides[static_cast<size_t>(checked_axis(x, spec.attrs.integer("axis")))];
}

Copies copies_of_slice(const KernelSpec& spec) {
  const std::vector<int64_t> source = block_strides(spec.inputs[0], spec.rows);
  return copy_from(spec, begin_of_slice(spec, spec.inputs[0], source), source);
}

Copies copies_of_slice_grad(const KernelSpec& spec) {
  const std::vector<int64_t> target = block_strides(spec.outputs[0], spec.rows);
  return copy_to(spec, begin_of_slice(spec, spec.outputs[0], target), target);
}

// split(n, axis) divides a dimension into n equal parts, each of which is a slice.
Result<OpShape> infer_split(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_activation("split", x));
  XRUN_ASSIGN(const int axis, axis_of("split", x, attrs.integer("axis")));
  const int64_t n = attrs.integer("n");
  const int64_t size = x.dims[static_cast<size_t>(axis)];
  XRUN_TRY(expect_range("split", "n", n, 1, size));
  if (size % n != 0) {
    return shape_error("`split` cannot cut " + to_text(x) + " into " + std::to_string(n) + " equal parts",
                       "let `n` divide the dimension");
  }
  OpShape shape;
  for (int64_t i = 0; i < n; ++i) {
    shape.outputs.push_back(with_dims(x, x.dims));
    shape.outputs.back().dims[static_cast<size_t>(axis)] = size / n;
  }
  return shape;
}

std::vector<PartCall> parts_of_split(std::span<const TensorType> inputs, const Attrs& attrs) {
  const int axis = checked_axis(inputs[0], attrs.integer("axis"));
  const int64_t n = attrs.integer("n");
  const int64_t size = inputs[0].dims[static_cast<size_t>(axis)] / n;
  std::vector<PartCall> parts;
  for (int64_t i = 0; i < n; ++i) {
    parts.push_back({"slice", Attrs{{"axis", int64_t{axis}}, {"begin", i * size}, {"end", (i + 1) * size}}});
  }
  return parts;
}

// pad(size) adds zeros around an image. Its gradient is the part of dy inside the border.
Result<OpShape> infer_pad(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_image("pad", x));
  const int64_t size = attrs.integer("size");
  XRUN_TRY(expect_range("pad", "size", size, 0, 4096));
  return shape_as(x, {kBatch, x.dims[1], x.dims[2] + 2 * size, x.dims[3] + 2 * size});
}

Result<OpShape> infer_pad_grad(std::span<const TensorType> inputs, const Attrs& attrs) {
  const std::vector<int64_t>& dims = inputs[0].dims;
  const int64_t size = attrs.integer("size");
  return shape_as(inputs[0], {kBatch, dims[1], dims[2] - 2 * size, dims[3] - 2 * size});
}

Status grad_pad(GradBuilder& builder) {
  return builder.set_grads_by("pad.grad", {builder.output_grad(0)}, builder.node().attrs);
}

Copies copies_of_pad(const KernelSpec& spec) {
  const std::vector<int64_t> target = block_strides(spec.outputs[0], spec.rows);
  return copy_to(spec, spec.attrs.integer("size") * (target[2] + target[3]), target);
}

Copies copies_of_pad_grad(const KernelSpec& spec) {
  const std::vector<int64_t> source = block_strides(spec.inputs[0], spec.rows);
  return copy_from(spec, spec.attrs.integer("size") * (source[2] + source[3]), source);
}

}  // namespace

constinit const Op kConcat{.def = {.name = "concat",
                                   .signature = "(x: [N, ...], axis: int)",
                                   .group = "shape",
                                   .doc = "joins any number of tensors along a dimension",
                                   .example = "concat(x, y, axis=1)",
                                   .aliases = "cat concatenate dim=axis",
                                   .variadic = true,
                                   .layout = LayoutRule::kAny,
                                   .infer = infer_concat,
                                   .grad = grad_concat,
                                   .shard_of = shard_but_axis},
                           .cpu = make_copies<copies_of_concat>};

constinit const Op kSlice{.def = {.name = "slice",
                                  .signature = "(x: [N, ...], axis: int, begin: int, end: int)",
                                  .group = "shape",
                                  .doc = "positions begin .. end - 1 of a dimension",
                                  .example = "slice(1, 0, 32)",
                                  .aliases = "dim=axis start=begin",
                                  .layout = LayoutRule::kAny,
                                  .infer = infer_slice,
                                  .grad = grad_slice,
                                  .shard_of = shard_but_axis},
                          .cpu = make_copies<copies_of_slice>};

constinit const Op kSliceGrad{.def = {.name = "slice.grad",
                                      .signature = "(dy: [N, ...])",
                                      .group = "shape",
                                      .doc = "gradient of a slice: zero outside of it",
                                      .layout = LayoutRule::kAny,
                                      .infer = infer_dims,
                                      .shard_of = shard_but_axis},
                              .cpu = make_copies<copies_of_slice_grad>};

constinit const Op kSplit{.def = {.name = "split",
                                  .signature = "(x: [N, ...], n: int, axis: int = 1)",
                                  .group = "shape",
                                  .doc = "n equal parts of a dimension: (a, b) = x -> split(2)",
                                  .example = "split(2)",
                                  .aliases = "chunk chunks=n num_or_size_splits=n dim=axis",
                                  .infer = infer_split,
                                  .parts = parts_of_split}};

constinit const Op kPad{.def = {.name = "pad",
                                .signature = "(x: [N, C, H, W], size: int)",
                                .group = "shape",
                                .doc = "zeros around an image",
                                .example = "pad(2)",
                                .aliases = "zero_pad2d padding=size",
                                .layout = LayoutRule::kAny,
                                .infer = infer_pad,
                                .grad = grad_pad,
                                .shard = "nc__->nc__"},
                        .cpu = make_copies<copies_of_pad>};

constinit const Op kPadGrad{.def = {.name = "pad.grad",
                                    .signature = "(dy: [N, C, H, W])",
                                    .group = "shape",
                                    .doc = "gradient of pad: the middle of the image",
                                    .layout = LayoutRule::kAny,
                                    .infer = infer_pad_grad,
                                    .shard = "nc__->nc__"},
                            .cpu = make_copies<copies_of_pad_grad>};

}  // namespace xrun::ops
