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
#include "graph/types/tensor_type.h"
#include "ops/dnn/window.h"

namespace xrun::ops::dnn {

// A compiled call of oneDNN. The comment of each function that makes a primitive lists its arguments in order.
// Arguments are in the project's layout (images channels-last, the rest row-major), except those marked "own form",
// which have the layout that oneDNN chose. Several threads may run a primitive at once.
class Primitive {
 public:
  Primitive();
  Primitive(Primitive&&) noexcept;
  Primitive& operator=(Primitive&&) noexcept;
  ~Primitive();

  // Runs the call. `scratch` has scratch_bytes(). Allocates only oneDNN's own handles.
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

// Returns the version of the loaded oneDNN library, such as "2.6.3".
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

  // Returns the number of rows and columns of the image on which one output depends.
  Extents reach() const { return {dilation.h * (kernel.h - 1) + 1, dilation.w * (kernel.w - 1) + 1}; }
  int64_t out_height() const { return (height + 2 * pad.h - reach().h) / stride.h + 1; }
  int64_t out_width() const { return (width + 2 * pad.w - reach().w) / stride.w + 1; }
};

// Arguments: x [rows, C, H, W], weight (own form), y; with a bias: x, weight (own form), bias f32, y.
Result<Primitive> conv_forward(const ConvShape& shape);
// Arguments: dy, weight (own form), dx.
Result<Primitive> conv_backward_data(const ConvShape& shape);
// Arguments: x, dy, dweight (own form, f32). REQUIRES: not overruns_workspace(shape).
Result<Primitive> conv_backward_weights(const ConvShape& shape);
// Whether oneDNN would overrun its workspace (its issue 6035). It reserves memory for the channels that exist but
// accesses blocks of 8 or 16 channels, so it writes beyond the end and mixes up the pixels. This happens with 1 x 1
// windows, a stride, no padding, and fewer channels than a block.
bool overruns_workspace(const ConvShape& shape);

struct LinearShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  DType dtype = DType::kF32;
  bool bias = false;
};

// Arguments: x [rows, in], weight [out, in] (own form), y [rows, out]; with a bias: x, weight, bias f32, y.
Result<Primitive> linear_forward(const LinearShape& shape);
// Arguments: dy, weight (own form), dx.
Result<Primitive> linear_backward_data(const LinearShape& shape);
// Arguments: x, dy, dweight (own form, f32).
Result<Primitive> linear_backward_weights(const LinearShape& shape);

// A batch of f32 matrix products c = a b. Each matrix has strides (batch, row, column), in elements, of any value.
struct MatmulShape {
  int64_t batch = 1;
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 0;
  std::array<int64_t, 3> a{};
  std::array<int64_t, 3> b{};
  std::array<int64_t, 3> c{};
};

// Arguments: a, b, c. For strided operands oneDNN 2.6 has only gemm:jit, which allocates its inner buffers itself.
Result<Primitive> matmul(const MatmulShape& shape);

// Makes a call that converts a weight in f32, row-major as declared, to the form that `user` reads as its argument
// number `argument`.
Result<Primitive> pack_weight(const Primitive& user, int argument);
// Makes a call that converts argument number `argument` of `user` to f32, row-major as declared, and adds it to the
// target.
Result<Primitive> unpack_weight_add(const Primitive& user, int argument);

}  // namespace xrun::ops::dnn
