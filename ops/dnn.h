// The only wrapper of oneDNN: convolutions and dense layers for fixed shapes on one thread
// (docs/internals/determinism.md, "oneDNN").
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/tensor_type.h"
#include "ops/window.h"

namespace xrun::ops::dnn {

// A compiled call. Arguments are the pointers in the order that the function creating it names; all except those marked
// "own form" are in the project's layout (images channels-last, the rest row-major). Several threads may run a
// primitive.
class Primitive {
 public:
  Primitive();
  Primitive(Primitive&&) noexcept;
  Primitive& operator=(Primitive&&) noexcept;
  ~Primitive();

  // `scratch` has scratch_bytes(). Allocates no more than oneDNN's own handles.
  Status run(std::span<void* const> arguments, std::byte* scratch) const;
  Bytes scratch_bytes() const;
  Bytes bytes(int argument) const;  // size of the argument in its own form
  std::string_view implementation() const;

  struct Impl;
  explicit Primitive(std::unique_ptr<Impl> impl);
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// The version of the loaded oneDNN library: "2.6.3".
std::string library_version();

struct ConvShape {
  int64_t rows = 0;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t out_channels = 0;
  Extents kernel{1, 1};
  Extents stride{1, 1};
  Extents pad;
  Extents dilation{1, 1};
  int64_t groups = 1;
  DType dtype = DType::kF32;  // type of activations and weights; sums are f32
  bool bias = false;
  bool operator==(const ConvShape&) const = default;

  // Rows and columns of the image that one output reads.
  Extents reach() const { return {dilation.h * (kernel.h - 1) + 1, dilation.w * (kernel.w - 1) + 1}; }
  int64_t out_height() const { return (height + 2 * pad.h - reach().h) / stride.h + 1; }
  int64_t out_width() const { return (width + 2 * pad.w - reach().w) / stride.w + 1; }
};

// x [rows, C, H, W], weight (own form), y; with a bias: x, weight, bias f32, y.
Result<Primitive> conv_forward(const ConvShape& shape);
// dy, weight (own form), dx.
Result<Primitive> conv_backward_data(const ConvShape& shape);
// x, dy, dweight (own form, f32). REQUIRES: not overruns_workspace(shape).
Result<Primitive> conv_backward_weights(const ConvShape& shape);
// Whether oneDNN would access a workspace in blocks of 8 or 16 channels although it reserves memory for fewer, so that
// it writes beyond the end and mixes up the pixels (its issue 6035): 1 x 1 windows, a stride, no padding, and fewer
// channels than a block.
bool overruns_workspace(const ConvShape& shape);

struct LinearShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  DType dtype = DType::kF32;
  bool bias = false;
};

// x [rows, in], weight [out, in] (own form), y [rows, out]; with a bias: x, weight, bias f32, y.
Result<Primitive> linear_forward(const LinearShape& shape);
// dy, weight (own form), dx.
Result<Primitive> linear_backward_data(const LinearShape& shape);
// x, dy, dweight (own form, f32).
Result<Primitive> linear_backward_weights(const LinearShape& shape);

// A batch of f32 matrix products c = a b with any strides (batch, row, column), in elements.
struct MatmulShape {
  int64_t batch = 1;
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 0;
  std::array<int64_t, 3> a{};
  std::array<int64_t, 3> b{};
  std::array<int64_t, 3> c{};
};

// a, b, c. For strided operands oneDNN 2.6 has only gemm:jit, which allocates its inner buffers itself.
Result<Primitive> matmul(const MatmulShape& shape);

// Converts a plain f32 weight as declared to the own form of `argument` of `user`.
Result<Primitive> pack_weight(const Primitive& user, int argument);
// Converts the own form to plain f32 and adds it to the target.
Result<Primitive> unpack_weight_add(const Primitive& user, int argument);

}  // namespace xrun::ops::dnn
