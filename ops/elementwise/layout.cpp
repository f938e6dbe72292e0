// Operators that move elements and compute nothing: flatten, reshape, transpose, concat, slice, split and pad, and
// reorder, which changes only the layout. The logical order of an image is (C, H, W), whatever its order in memory.
// Tests: tests/ops/conformance_test.cpp
#include <algorithm>
#include <array>
#include <cstring>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/loops/copies.h"
#include "ops/loops/strides.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/shard.h"

namespace xrun::ops {
namespace {

// reshape and flatten keep the logical order of elements.
Result<OpShape> shape_as(const TensorType& x, std::vector<int64_t> dims) {
  return OpShape{{with_dims(x, std::move(dims))}};
}

Result<OpShape> infer_flatten(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_activation("flatten", x));
  const int64_t from = attrs.integer("from", 1);
  XRUN_TRY(expect_range("flatten", "from", from, 1, x.rank() - 1));
  std::vector<int64_t> dims(x.dims.begin(), x.dims.begin() + from);
  int64_t rest = 1;
  for (size_t i = static_cast<size_t>(from); i < x.dims.size(); ++i) {
    rest *= x.dims[i];
  }
  dims.push_back(rest);
  return shape_as(x, std::move(dims));
}

bool flattens_nothing(std::span<const TensorType> inputs, const Attrs& attrs) {
  return attrs.integer("from", 1) == inputs[0].rank() - 1;
}

constexpr const char* kSameElements = "let the dimensions after N multiply to as many elements as it has";

Result<OpShape> infer_reshape(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_activation("reshape", x));
  const TensorType to = with_dims(x, attrs.integers("shape"));
  if (!to.has_batch()) {
    return shape_error("`reshape` of " + to_text(x) + " to " + to_text(to) + " drops the batch dimension",
                       "the shape starts with N");
  }
  int64_t elements = 1;
  for (size_t i = 1; i < to.dims.size(); ++i) {
    XRUN_TRY(expect_range("reshape", "a dimension", to.dims[i], 1, x.row_elements()));
    if (__builtin_mul_overflow(elements, to.dims[i], &elements)) {
      return shape_error("`reshape` cannot turn " + to_text(x) + " into " + to_text(to), kSameElements);
    }
  }
  if (to.row_elements() != x.row_elements()) {
    return shape_error("`reshape` cannot turn " + to_text(x) + " into " + to_text(to) + ": " +
                           std::to_string(x.row_elements()) + " and " + std::to_string(to.row_elements()) +
                           " elements a sample",
                       kSameElements);
  }
  return shape_as(x, to.dims);
}

Status grad_reshape(GradBuilder& builder) {
  return builder.set_grads_by("reshape", {builder.output_grad(0)},
                              Attrs{{"shape", builder.type(builder.input(0)).dims}});
}

// Returns the shard rule. Equal leading dimensions can be split, and so can the first one that differs, if both shapes
// have a boundary there.
std::string shard_reshape(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  const std::vector<int64_t>& x = inputs[0].dims;
  const std::vector<int64_t>& y = outputs[0].dims;
  const auto same = static_cast<size_t>(std::ranges::mismatch(x, y).in1 - x.begin());
  std::vector<std::string> letters;
  for (const TensorType* type : {&inputs[0], &outputs[0]}) {
    letters.push_back(shard_letters(*type));
    for (size_t d = same + 1; d < letters.back().size(); ++d) {
      letters.back()[d] = '_';
    }
  }
  return shard_text({letters[0]}, {letters[1]});
}

// Copies each row from channels-last memory to the logical (row-major) order of x, then from the logical order of y to
// its channels-last memory. If the shapes are equal, this is a reorder.
template <typename T>
Result<std::unique_ptr<Kernel>> make_reshape(const KernelSpec& spec) {
  const TensorType& x = spec.inputs[0];
  const TensorType& y = spec.outputs[0];
  const int64_t n = x.row_elements();
  std::vector<Copy> copies;
  if (x.is_channels_last()) {
    const std::vector<int64_t> dims = block_dims(x, 1);
    copies.push_back({.loop = StridedLoop<2>(dims, {row_major(dims), block_strides(x, 1)})});
  }
  if (y.is_channels_last()) {
    const std::vector<int64_t> dims = block_dims(y, 1);
    copies.push_back({.loop = StridedLoop<2>(dims, {block_strides(y, 1), row_major(dims)})});
  }
  return kernel_over_rows(
      spec.rows,
      [n, copies](const KernelCall& call, Range some) {
        const T* from = call.inputs[0].as<T>() + some.begin * n;
        T* to = call.outputs[0].as<T>() + some.begin * n;
        if (copies.empty()) {
          std::memcpy(to, from, static_cast<size_t>(some.size() * n) * sizeof(T));
          return;
        }
        for (int64_t r = some.begin; r < some.end; ++r, from += n, to += n) {
          if (copies.size() == 1) {
            run_copy(copies[0], from, to);
          } else {
            auto* const between = reinterpret_cast<T*>(call.scratch);
            run_copy(copies[0], from, between);
            run_copy(copies[1], static_cast<const T*>(between), to);
          }
        }
      },
      copies.size() == 2 ? n * static_cast<Bytes>(sizeof(T)) : 0);
}

// transpose(a, b) exchanges two dimensions of a sample.
Result<OpShape> infer_transpose(std::span<const TensorType> inputs, const Attrs& attrs) {
  const TensorType& x = inputs[0];
  XRUN_TRY(expect_activation("transpose", x));
  XRUN_ASSIGN(const int a, axis_of("transpose", x, attrs.integer("a")));
  XRUN_ASSIGN(const int b, axis_of("transpose", x, attrs.integer("b")));
  std::vector<int64_t> dims = x.dims;
  std::swap(dims[static_cast<size_t>(a)], dims[static_cast<size_t>(b)]);
  return shape_as(x, std::move(dims));
}

Status grad_transpose(GradBuilder& builder) {
  return builder.set_grads_by("transpose", {builder.output_grad(0)}, builder.node().attrs);
}

int checked_axis(const TensorType& x, int64_t axis) { return static_cast<int>(axis < 0 ? axis + x.rank() : axis); }

std::string shard_transpose(std::span<const TensorType> inputs, std::span<const TensorType>, const Attrs& attrs) {
  const std::string from = shard_letters(inputs[0]);
  std::string to = from;
  std::swap(to[static_cast<size_t>(checked_axis(inputs[0], attrs.integer("a")))],
            to[static_cast<size_t>(checked_axis(inputs[0], attrs.integer("b")))]);
  return shard_text({from}, {to});
}

Copies copies_of_transpose(const KernelSpec& spec) {
  const TensorType& x = spec.inputs[0];
  std::vector<int64_t> source = block_strides(x, spec.rows);
  std::swap(source[static_cast<size_t>(checked_axis(x, spec.attrs.integer("a")))],
            source[static_cast<size_t>(checked_axis(x, spec.attrs.integer("b")))]);
  return copy_from(spec, 0, source);
}

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

// pad(size) adds zeros around an image. Its gradient is the middle of dy.
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

constexpr Op kFlatten{.def = {.name = "flatten",
                              .signature = "(x: [N, ...], from: int = 1)",
                              .group = "shape",
                              .doc = "joins the dimensions from `from` on, in (C, H, W) order",
                              .example = "flatten",
                              .aliases = "start_dim=from",
                              .layout = LayoutRule::kAny,
                              .infer = infer_flatten,
                              .is_identity = flattens_nothing,
                              .grad = grad_reshape,
                              .shard_of = shard_reshape},
                      .cpu = by_dtype<make_reshape<float>, make_reshape<Bf16>>};

constexpr Op kReshape{.def = {.name = "reshape",
                              .signature = "(x: [N, ...], shape: dims)",
                              .group = "shape",
                              .doc = "the same elements in the same logical order, with other dimensions",
                              .example = "reshape([N, 64, 1, 1])",
                              .aliases = "view",
                              .layout = LayoutRule::kAny,
                              .infer = infer_reshape,
                              .grad = grad_reshape,
                              .shard_of = shard_reshape},
                      .cpu = by_dtype<make_reshape<float>, make_reshape<Bf16>>};

constexpr Op kTranspose{.def = {.name = "transpose",
                                .signature = "(x: [N, ...], a: int, b: int)",
                                .group = "shape",
                                .doc = "exchanges two dimensions",
                                .example = "transpose(1, 2)",
                                .aliases = "swapaxes dim0=a dim1=b",
                                .layout = LayoutRule::kAny,
                                .infer = infer_transpose,
                                .grad = grad_transpose,
                                .shard_of = shard_transpose},
                        .cpu = make_copies<copies_of_transpose>};

constexpr Op kConcat{.def = {.name = "concat",
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

constexpr Op kSlice{.def = {.name = "slice",
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

constexpr Op kSliceGrad{.def = {.name = "slice.grad",
                                .signature = "(dy: [N, ...])",
                                .group = "shape",
                                .doc = "gradient of a slice: zero outside of it",
                                .layout = LayoutRule::kAny,
                                .infer = infer_dims,
                                .shard_of = shard_but_axis},
                        .cpu = make_copies<copies_of_slice_grad>};

constexpr Op kSplit{.def = {.name = "split",
                            .signature = "(x: [N, ...], n: int, axis: int = 1)",
                            .group = "shape",
                            .doc = "n equal parts of a dimension: (a, b) = x -> split(2)",
                            .example = "split(2)",
                            .aliases = "chunk chunks=n num_or_size_splits=n dim=axis",
                            .infer = infer_split,
                            .parts = parts_of_split}};

constexpr Op kPad{.def = {.name = "pad",
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

constexpr Op kPadGrad{.def = {.name = "pad.grad",
                              .signature = "(dy: [N, C, H, W])",
                              .group = "shape",
                              .doc = "gradient of pad: the middle of the image",
                              .layout = LayoutRule::kAny,
                              .infer = infer_pad_grad,
                              .shard = "nc__->nc__"},
                      .cpu = make_copies<copies_of_pad_grad>};

// reorder(to) changes the layout of a tensor to `to`. The pass that chooses layouts inserts it between operators that
// need different layouts (graph/passes/passes.h).
constexpr Op kReorder{.def = {.name = "reorder",
                              .signature = "(x: [N, C, H, W], to: str)",
                              .group = "shape",
                              .doc = "the same tensor in another layout in memory",
                              .internal = true,
                              .layout = LayoutRule::kAny,
                              .infer = [](std::span<const TensorType> inputs, const Attrs&) -> Result<OpShape> {
                                return OpShape{{inputs[0]}};
                              },
                              .shard = "n.->n."},
                      .cpu = by_dtype<make_reshape<float>, make_reshape<Bf16>>};

constexpr std::array<const Op*, 10> kOps{&kFlatten,   &kReshape, &kTranspose, &kConcat,  &kSlice,
                                         &kSliceGrad, &kSplit,   &kPad,       &kPadGrad, &kReorder};

}  // namespace

std::span<const Op* const> layout_ops() { return kOps; }

}  // namespace xrun::ops
