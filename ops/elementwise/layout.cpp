// Operators that keep all elements and give them other dimensions: flatten, reshape and transpose, and reorder, which
// changes only the layout. The logical order of an image is (C, H, W), whatever its order in memory.
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

// Returns the shard rule. Equal leading dimensions can be split, and so can the first dimension that differs, if both
// shapes have a boundary there.
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
                      .cpu = by_dtype<make_reshape<float>, make_reshape<Bf16>, make_reshape<Half>>};

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
                      .cpu = by_dtype<make_reshape<float>, make_reshape<Bf16>, make_reshape<Half>>};

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
                      .cpu = by_dtype<make_reshape<float>, make_reshape<Bf16>, make_reshape<Half>>};

constexpr std::array<const Op*, 10> kOps{&kFlatten,   &kReshape, &kTranspose, &kConcat,  &kSlice,
                                         &kSliceGrad, &kSplit,   &kPad,       &kPadGrad, &kReorder};

}  // namespace

std::span<const Op* const> layout_ops() { return kOps; }

}  // namespace xrun::ops
