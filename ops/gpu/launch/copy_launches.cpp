// Operators that change the layout or copy parts of tensors: reshape, transpose, concat, slice, pad, take, class_token,
// and their gradients.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>

#include "ops/gpu/launch/copies.h"
#include "ops/gpu/launch/operators.h"
#include "ops/gpu/launch/term_sums.h"
#include "ops/shape.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;
using Loop = StridedLoop<2>;
using Strides = std::vector<int64_t>;

// One copy of a call with `rows` rows. Offsets count elements.
struct Part {
  int input = 0;
  int64_t from = 0;
  int64_t to = 0;
  Loop loop;
};
// Returns the copies of a call with this number of rows.
using PartsOf = std::vector<Part> (*)(const KernelSpec& node, int64_t rows);

// A kernel that makes some copies. With `zeroes` they do not cover the output, which is set to 0 first.
template <PartsOf kParts, bool kZeroes = false>
Made make_parts(const GpuSpec& spec) {
  const Bytes size = size_of(spec.node.outputs[0].dtype);
  for (const Part& part : kParts(spec.node, std::max<int64_t>(2, spec.rows(spec.most_blocks)))) {
    if ((size != 2 && size != 4) || !can_copy(part.loop)) {
      return no_gpu_kernel(spec, "tensors of so many dimensions");
    }
  }
  return gpu_kernel_of(spec, [spec, size](LaunchList& list, int64_t blocks) {
    if (kZeroes) {
      add_zeros(list, size, out(0), spec.elements(spec.node.outputs[0], blocks));
    }
    for (const Part& part : kParts(spec.node, spec.rows(blocks))) {
      add_copy(list, size, in(part.input, part.from * size), out(0, part.to * size), part.loop);
    }
  });
}

// A copy that fills the output from element `from` of the input on, which it reads with `strides`; and one that writes
// the input to the output from element `to` on.
Part part_from(const KernelSpec& node, int64_t rows, int64_t from, const Strides& strides) {
  const TensorType& y = node.outputs[0];
  return {.from = from, .loop = Loop(block_dims(y, rows), {block_strides(y, rows), strides})};
}
Part part_to(const KernelSpec& node, int64_t rows, int64_t to, const Strides& strides) {
  const TensorType& x = node.inputs[0];
  return {.to = to, .loop = Loop(block_dims(x, rows), {strides, block_strides(x, rows)})};
}

size_t axis_in(const TensorType& type, const Attrs& attrs, std::string_view name) {
  return static_cast<size_t>(checked_axis(type, attrs.integer(name)));
}

std::vector<Part> parts_of_transpose(const KernelSpec& node, int64_t rows) {
  const TensorType& x = node.inputs[0];
  Strides source = block_strides(x, rows);
  std::swap(source[axis_in(x, node.attrs, "a")], source[axis_in(x, node.attrs, "b")]);
  return {part_from(node, rows, 0, source)};
}

std::vector<Part> parts_of_concat(const KernelSpec& node, int64_t rows) {
  const TensorType& y = node.outputs[0];
  const size_t axis = axis_in(y, node.attrs, "axis");
  const Strides target = block_strides(y, rows);
  std::vector<Part> parts;
  int64_t at = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorType& x = node.inputs[i];
    parts.push_back({.input = static_cast<int>(i),
                     .to = at * target[axis],
                     .loop = Loop(block_dims(x, rows), {target, block_strides(x, rows)})});
    at += x.dims[axis];
  }
  return parts;
}

std::vector<Part> parts_of_slice(const KernelSpec& node, int64_t rows) {
  const Strides source = block_strides(node.inputs[0], rows);
  const size_t axis = axis_in(node.inputs[0], node.attrs, "axis");
  return {part_from(node, rows, node.attrs.integer("begin") * source[axis], source)};
}

std::vector<Part> parts_of_slice_grad(const KernelSpec& node, int64_t rows) {
  const Strides target = block_strides(node.outputs[0], rows);
  const size_t axis = axis_in(node.outputs[0], node.attrs, "axis");
  return {part_to(node, rows, node.attrs.integer("begin") * target[axis], target)};
}

std::vector<Part> parts_of_pad(const KernelSpec& node, int64_t rows) {
  const Strides target = block_strides(node.outputs[0], rows);
  return {part_to(node, rows, node.attrs.integer("size") * (target[2] + target[3]), target)};
}

std::vector<Part> parts_of_pad_grad(const KernelSpec& node, int64_t rows) {
  const Strides source = block_strides(node.inputs[0], rows);
  return {part_from(node, rows, node.attrs.integer("size") * (source[2] + source[3]), source)};
}

// The strides of a sequence [N, T, ...] without that of its positions.
Strides strides_without_positions(const TensorType& x, int64_t rows) {
  Strides strides = block_strides(x, rows);
  strides.erase(strides.begin() + 1);
  return strides;
}

std::vector<Part> parts_of_take(const KernelSpec& node, int64_t rows) {
  const TensorType& x = node.inputs[0];
  return {
      part_from(node, rows, node.attrs.integer("i") * block_strides(x, rows)[1], strides_without_positions(x, rows))};
}

std::vector<Part> parts_of_take_grad(const KernelSpec& node, int64_t rows) {
  const TensorType& dx = node.outputs[0];
  return {
      part_to(node, rows, node.attrs.integer("i") * block_strides(dx, rows)[1], strides_without_positions(dx, rows))};
}

// reshape, flatten and reorder keep the logical order of the elements of a sample. An image whose channels are last is
// first copied to the logical order; if both shapes are such images, this copy is in the working memory.
Made make_reshape(const GpuSpec& spec) {
  const TensorType& x = spec.node.inputs[0];
  const TensorType& y = spec.node.outputs[0];
  const Bytes size = size_of(x.dtype);
  const bool both = x.is_channels_last() && y.is_channels_last();
  if (!x.is_channels_last() && !y.is_channels_last()) {
    return make_copy(spec);
  }
  const auto run = [spec, x, y, size, both](LaunchList& list, int64_t blocks) {
    const int64_t rows = spec.rows(blocks);
    if (x.is_channels_last()) {
      const std::vector<int64_t> dims = block_dims(x, rows);
      add_copy(list, size, in(0), both ? scratch() : out(0), Loop(dims, {row_major(dims), block_strides(x, rows)}));
    }
    if (y.is_channels_last()) {
      const std::vector<int64_t> dims = block_dims(y, rows);
      add_copy(list, size, both ? scratch() : in(0), out(0), Loop(dims, {block_strides(y, rows), row_major(dims)}));
    }
  };
  return gpu_kernel_of(spec, run, both ? spec.for_blocks(spec.elements(x, 1) * size) : 0);
}

// Inputs: x [N, T, D], token [D], which is rounded in the working memory if x is bf16.
Made make_token(const GpuSpec& spec) {
  const TensorType& x = spec.node.inputs[0];
  XRUN_TRY(type_ending(spec, x.dtype));
  return gpu_kernel_of(
      spec,
      [spec, size = size_of(x.dtype), d = x.dims[2]](LaunchList& list, int64_t blocks) {
        const int64_t rows = spec.rows(blocks), sequence = spec.node.inputs[0].row_elements();
        if (size == 2) {
          list.each("cast", "narrow_bf16", d, in(1), scratch(), d);
        }
        add_copy(list, size, size == 2 ? scratch() : in(1), out(0),
                 Loop({rows, d}, {Strides{sequence + d, 1}, {0, 1}}));
        add_copy(list, size, in(0), out(0, d * size),
                 Loop({rows, sequence}, {Strides{sequence + d, 1}, {sequence, 1}}));
      },
      x.dims[2] * 2);
}

// Inputs: dy [N, T + 1, D]. Outputs: dx, and dtoken [D], to which the samples are added one after the other.
Made make_token_grad(const GpuSpec& spec) {
  const TensorType& dy = spec.node.inputs[0];
  XRUN_TRY(type_ending(spec, dy.dtype));
  return gpu_kernel_of(spec, [spec, dy, size = size_of(dy.dtype), d = dy.dims[2]](LaunchList& list, int64_t blocks) {
    const int64_t rows = spec.rows(blocks), sequence = spec.node.outputs[0].row_elements();
    add_copy(list, size, in(0, d * size), out(0), Loop({rows, sequence}, {Strides{sequence, 1}, {sequence + d, 1}}));
    const TermSums sums = TermSums::of_axes({rows, d}, {sequence + d, 1}, {0, 1});
    sums.add(list, dy.dtype, TermSums::Order::kTerms, in(0), out(1));
  });
}

constexpr std::array kOps{
    GpuOp{"flatten", make_reshape},
    GpuOp{"verification", make_copy},  // the features, which the host compares
    GpuOp{"reshape", make_reshape},
    GpuOp{"reorder", make_reshape},
    GpuOp{"transpose", make_parts<parts_of_transpose>},
    GpuOp{"concat", make_parts<parts_of_concat>},
    GpuOp{"slice", make_parts<parts_of_slice>},
    GpuOp{"slice.grad", make_parts<parts_of_slice_grad, true>},
    GpuOp{"pad", make_parts<parts_of_pad, true>},
    GpuOp{"pad.grad", make_parts<parts_of_pad_grad>},
    GpuOp{"take", make_parts<parts_of_take>},
    GpuOp{"take.grad", make_parts<parts_of_take_grad, true>},
    GpuOp{"class_token", make_token},
    GpuOp{"class_token.grad", make_token_grad},
};

}  // namespace

std::span<const GpuOp> copy_launches() { return kOps; }

}  // namespace xrun::ops::gpu
