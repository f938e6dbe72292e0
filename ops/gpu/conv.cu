// Convolutions of images [N, height, width, channels] as products by tiles (ops/conv/conv.cpp). The terms of a sum are
// computed from the images as they are copied to shared memory; no matrix of windows exists in memory.
//   conv      y [positions of y, out]    terms: cells of the window row by row, each with its channels
//   conv_dx   dx [positions of x, in]    terms: cells of the window row by row, each with its output channels
//   conv_dw   dw [out, in and cells]     terms: positions of y, image by image
// Terms are added in ascending order: f32 by one chain of fused multiply-adds, bf16 16 terms at a time on tensor cores.
// Groups are products of their own. conv_dw begins a new sum every 1,024 positions and in each row block, and adds
// these sums in ascending order to the sum of the row block, and these to the gradient. So no bit depends on the
// number of images or row blocks in a launch.
//
// Weights are [out, in of a group, cells], or [out, cells, in of a group] if `packed` is 1
// (narrow_packed_bf16 of cast.cu). bf16 stages are copied 16 bytes at a time if weights are packed or windows have one
// cell, and 8 divides the channels of a group. N * height * width of x and of y, and the terms of a sum, must be fewer
// than 2^30.
//
// Tests: tests/ops/gpu/conv_test.cpp
#include "ops/gpu/tile_products.h"

using namespace xrun::ops;

namespace xrun::ops {

constexpr int kFar = 1 << 30;     // a distance at which no image has cells
constexpr int kRunOfSums = 1024;  // positions of a sum of conv_dw

struct Size {
  int h, w;
};
struct Conv {
  int images, channels, height, width, out_channels, out_height, out_width;
  Size k, stride, pad, dilation;
  int groups;
  bool packed;

  __device__ int in() const { return channels / groups; }  // in a group
  __device__ int out() const { return out_channels / groups; }
  __device__ int cells() const { return k.h * k.w; }
  __device__ int positions() const { return images * height * width; }
  __device__ int out_positions() const { return images * out_height * out_width; }
  // The place of an input channel and a cell in the weights of an output channel.
  __device__ int64_t place(int channel, int cell) const {
    return packed ? static_cast<int64_t>(cell) * in() + channel : static_cast<int64_t>(channel) * cells() + cell;
  }
  __device__ int64_t weights() const { return static_cast<int64_t>(in()) * cells(); }  // for each output channel
  // Whether chunks of input channels are contiguous in the weights.
  __device__ bool has_channel_runs(int chunk) const { return (packed || cells() == 1) && in() % chunk == 0; }
};

// A position of an image, as the first element of its channels and the coordinates that cells are added to.
template <typename T>
struct Position {
  const T* image;
  int y, x;
};
// A cell of a window and a channel.
struct Cell {
  int down, right, channel;

  // The cell of column `i`, where `channels` is the number of channels of each cell.
  __device__ static Cell of(const Conv& s, int64_t i, int channels, int beyond) {
    const auto at = static_cast<uint32_t>(i), each = static_cast<uint32_t>(channels),
               width = static_cast<uint32_t>(s.k.w);
    const uint32_t cell = at / each;
    if (i >= static_cast<int64_t>(s.cells()) * channels) {
      return {beyond, 0, 0};
    }
    return {static_cast<int>(cell / width) * s.dilation.h, static_cast<int>(cell % width) * s.dilation.w,
            static_cast<int>(at % each)};
  }
};

// The first element of an operand, which a copy of nothing names.
template <typename T>
struct Elements {
  const T* first;
  __device__ const T* any() const { return first; }
};

// x as an operand: rows are positions of y up to `end` - 1, columns are cells and input channels of a group, whose
// first element is `first`.
template <typename T>
struct Windows : Elements<T> {
  using Elements<T>::first;
  const Conv& s;
  int64_t end;

  using Row = Position<T>;
  using Column = Cell;
  __device__ Row row(int64_t i) const {
    if (i >= end) {
      return {first, -kFar, 0};
    }
    const auto at = static_cast<uint32_t>(i), width = static_cast<uint32_t>(s.out_width);
    const uint32_t line = at / width, height = static_cast<uint32_t>(s.out_height);
    return {first + static_cast<int64_t>(line / height) * s.height * s.width * s.channels,
            static_cast<int>(line % height) * s.stride.h - s.pad.h,
            static_cast<int>(at % width) * s.stride.w - s.pad.w};
  }
  __device__ Column column(int64_t i) const { return Cell::of(s, i, s.in(), -kFar); }
  __device__ const T* at(const Row& row, const Column& column) const {
    const int y = row.y + column.down, x = row.x + column.right;
    const bool exists = y >= 0 && y < s.height && x >= 0 && x < s.width;
    return exists ? row.image + (static_cast<int64_t>(y) * s.width + x) * s.channels + column.channel : nullptr;
  }
  __device__ bool has_chunks(int chunk) const {
    return s.in() % chunk == 0 && s.channels % chunk == 0 && is_aligned_16(first);
  }
};

// dy as an operand: rows are positions of x, columns are cells and output channels of a group, whose first element is
// `first`.
template <typename T>
struct Gradients : Elements<T> {
  using Elements<T>::first;
  const Conv& s;

  using Row = Position<T>;
  using Column = Cell;
  __device__ Row row(int64_t i) const {
    if (i >= s.positions()) {
      return {first, -kFar, 0};
    }
    const auto at = static_cast<uint32_t>(i), width = static_cast<uint32_t>(s.width);
    const uint32_t line = at / width, height = static_cast<uint32_t>(s.height);
    return {first + static_cast<int64_t>(line / height) * s.out_height * s.out_width * s.out_channels,
            static_cast<int>(line % height) + s.pad.h, static_cast<int>(at % width) + s.pad.w};
  }
  __device__ Column column(int64_t i) const { return Cell::of(s, i, s.out(), kFar); }
  __device__ const T* at(const Row& row, const Column& column) const {
    const int y = row.y - column.down, x = row.x - column.right;
    if (y < 0 || x < 0 || y % s.stride.h != 0 || x % s.stride.w != 0) {
      return nullptr;
    }
    const int i = y / s.stride.h, j = x / s.stride.w;
    const bool exists = i < s.out_height && j < s.out_width;
    return exists ? row.image + (static_cast<int64_t>(i) * s.out_width + j) * s.out_channels + column.channel : nullptr;
  }
  __device__ bool has_chunks(int chunk) const {
    return s.out() % chunk == 0 && s.out_channels % chunk == 0 && is_aligned_16(first);
  }
};

// Weights of a group as an operand, whose first element is `first`.
template <typename T>
struct Weights : Elements<T> {
  using Elements<T>::first;
  const Conv& s;

  using Row = const T*;
  using Column = int64_t;
  __device__ const T* at(Row row, Column column) const {
    return row != nullptr && column >= 0 ? row + column : nullptr;
  }
  __device__ bool has_chunks(int chunk) const { return s.has_channel_runs(chunk) && is_aligned_16(first); }
};

// Weights as the operand of conv: rows are output channels, columns are cells and input channels.
template <typename T>
struct OutputWeights : Weights<T> {
  using Weights<T>::first;
  using Weights<T>::s;

  __device__ const T* row(int64_t i) const { return i < s.out() ? first + i * s.weights() : nullptr; }
  __device__ int64_t column(int64_t i) const {
    const auto at = static_cast<uint32_t>(i), in = static_cast<uint32_t>(s.in());
    return i < s.weights() ? s.place(static_cast<int>(at % in), static_cast<int>(at / in)) : -1;
  }
};

// Weights as the operand of conv_dx: rows are cells and output channels, columns are input channels.
template <typename T>
struct InputWeights : Weights<T> {
  using Weights<T>::first;
  using Weights<T>::s;

  __device__ const T* row(int64_t i) const {
    const auto at = static_cast<uint32_t>(i), out = static_cast<uint32_t>(s.out());
    const bool exists = i < static_cast<int64_t>(s.out()) * s.cells();
    return exists ? first + at % out * s.weights() + s.place(0, static_cast<int>(at / out)) : nullptr;
  }
  __device__ int64_t column(int64_t i) const { return i < s.in() ? s.place(static_cast<int>(i), 0) : -1; }
};

// The tile of a block: blocks of a launch are numbered by rows of tiles, then groups, then columns of tiles.
template <class Tile>
struct TileOfGroup {
  int group;
  int64_t first_row, first_column;

  __device__ static TileOfGroup of(const Conv& s, int64_t columns) {
    const auto across = static_cast<uint32_t>((columns + Tile::kTile - 1) / Tile::kTile);
    const auto groups = static_cast<uint32_t>(s.groups);
    const uint32_t at = blockIdx.x / across;
    return {static_cast<int>(at % groups), static_cast<int64_t>(at / groups) * Tile::kTile,
            static_cast<int64_t>(blockIdx.x % across) * Tile::kTile};
  }
};

template <class Tile, typename T>
__device__ void conv(const Conv& s, const T* x, const T* weight, const float* bias, T* y) {
  __shared__ Stages<Tile> stages;
  const auto at = TileOfGroup<Tile>::of(s, s.out());
  Tile sums = {};
  const Windows<T> windows{{x + at.group * s.in()}, s, s.out_positions()};
  const OutputWeights<T> weights{{{weight + at.group * s.out() * s.weights()}, s}};
  add_product<false, false>(sums, stages, windows, at.first_row, weights, at.first_column, 0, s.in() * s.cells());
  for_each_sum(sums, [&](int r, int c, float sum) {
    const int64_t row = at.first_row + r, column = at.first_column + c;
    if (row < s.out_positions() && column < s.out()) {
      const int64_t channel = at.group * s.out() + column;
      assign(y[row * s.out_channels + channel], bias != nullptr ? sum + bias[channel] : sum);
    }
  });
}

template <class Tile, typename T>
__device__ void conv_dx(const Conv& s, const T* dy, const T* weight, T* dx) {
  __shared__ Stages<Tile> stages;
  const auto at = TileOfGroup<Tile>::of(s, s.in());
  Tile sums = {};
  const Gradients<T> gradients{{dy + at.group * s.out()}, s};
  const InputWeights<T> weights{{{weight + at.group * s.out() * s.weights()}, s}};
  add_product<false, true>(sums, stages, gradients, at.first_row, weights, at.first_column, 0, s.out() * s.cells());
  for_each_sum(sums, [&](int r, int c, float sum) {
    const int64_t row = at.first_row + r, column = at.first_column + c;
    if (row < s.positions() && column < s.in()) {
      assign(dx[row * s.channels + at.group * s.in() + column], sum);
    }
  });
}

// Adds all row blocks to dw, or, if `stride` is not 0, writes row block blockIdx.y to dw + blockIdx.y * stride. The sum
// of a row block is kept in shared memory, each element by its thread.
template <class Tile, typename T>
__device__ void conv_dw(const Conv& s, const T* x, const T* dy, float* dw, int rows, int64_t stride) {
  __shared__ Stages<Tile> stages;
  __shared__ float totals[Tile::kTile * Tile::kTile / Tile::kThreads][Tile::kThreads];
  const auto at = TileOfGroup<Tile>::of(s, s.weights());
  const int step = rows * s.out_height * s.out_width, all = s.out_positions();
  float* const to = dw + blockIdx.y * stride + at.group * s.out() * s.weights();
#pragma unroll 1
  for (int begin = static_cast<int>(blockIdx.y) * step; begin < all; begin += step) {
    const int end = step < all - begin ? begin + step : all;
#pragma unroll 1
    for (int run = begin; run < end; run += kRunOfSums) {
      const int stop = kRunOfSums < end - run ? run + kRunOfSums : end;
      const Matrix<T> gradients{dy + at.group * s.out(), stop, s.out(), s.out_channels};
      const Windows<T> windows{{x + at.group * s.in()}, s, stop};
      Tile sums = {};
      add_product<true, true>(sums, stages, gradients, at.first_row, windows, at.first_column, run, stop);
      int slot = 0;
      for_each_sum(sums, [&](int, int, float sum) {
        float& total = totals[slot++][threadIdx.x];
        total = run == begin ? sum : total + sum;
      });
    }
    int slot = 0;
    Tile places;
    for_each_sum(places, [&](int r, int c, float&) {
      const int64_t row = at.first_row + r, column = at.first_column + c;
      const float sum = totals[slot++][threadIdx.x];
      if (row < s.out() && column < s.weights()) {
        const auto i = static_cast<uint32_t>(column), in = static_cast<uint32_t>(s.in());
        float& place = to[row * s.weights() + static_cast<int64_t>(i % in) * s.cells() + i / in];
        place = stride == 0 ? place + sum : sum;
      }
    });
    if (stride != 0) {
      break;
    }
  }
}

__device__ inline Conv conv_of(int32_t images, int32_t channels, int32_t height, int32_t width, int32_t out_channels,
                               int32_t out_height, int32_t out_width, int32_t k_h, int32_t k_w, int32_t stride_h,
                               int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h, int32_t dilation_w,
                               int32_t groups, int32_t packed) {
  return {images,   channels, height, width, out_channels, out_height, out_width, k_h,        k_w,
          stride_h, stride_w, pad_h,  pad_w, dilation_h,   dilation_w, groups,    packed != 0};
}

}  // namespace xrun::ops

// `bias` [out] may be null. As many blocks as tiles of 64 positions of y, for each group and each 64 of its output
// channels.
extern "C" __global__ void __launch_bounds__(TileF32::kThreads, 2)
    conv_f32(const float* x, const float* weight, const float* bias, float* y, int32_t images, int32_t channels,
             int32_t height, int32_t width, int32_t out_channels, int32_t out_height, int32_t out_width, int32_t k_h,
             int32_t k_w, int32_t stride_h, int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h,
             int32_t dilation_w, int32_t groups, int32_t packed) {
  conv<TileF32>(conv_of(images, channels, height, width, out_channels, out_height, out_width, k_h, k_w, stride_h,
                        stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, packed),
                x, weight, bias, y);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    conv_bf16(const Bf16* x, const Bf16* weight, const float* bias, Bf16* y, int32_t images, int32_t channels,
              int32_t height, int32_t width, int32_t out_channels, int32_t out_height, int32_t out_width, int32_t k_h,
              int32_t k_w, int32_t stride_h, int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h,
              int32_t dilation_w, int32_t groups, int32_t packed) {
  conv<TileBf16>(conv_of(images, channels, height, width, out_channels, out_height, out_width, k_h, k_w, stride_h,
                         stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, packed),
                 x, weight, bias, y);
}

// One block for each 64 positions of x, each group, and each 64 of its input channels.
extern "C" __global__ void __launch_bounds__(TileF32::kThreads, 2)
    conv_dx_f32(const float* dy, const float* weight, float* dx, int32_t images, int32_t channels, int32_t height,
                int32_t width, int32_t out_channels, int32_t out_height, int32_t out_width, int32_t k_h, int32_t k_w,
                int32_t stride_h, int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h,
                int32_t dilation_w, int32_t groups, int32_t packed) {
  conv_dx<TileF32>(conv_of(images, channels, height, width, out_channels, out_height, out_width, k_h, k_w, stride_h,
                           stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, packed),
                   dy, weight, dx);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    conv_dx_bf16(const Bf16* dy, const Bf16* weight, Bf16* dx, int32_t images, int32_t channels, int32_t height,
                 int32_t width, int32_t out_channels, int32_t out_height, int32_t out_width, int32_t k_h, int32_t k_w,
                 int32_t stride_h, int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h,
                 int32_t dilation_w, int32_t groups, int32_t packed) {
  conv_dx<TileBf16>(conv_of(images, channels, height, width, out_channels, out_height, out_width, k_h, k_w, stride_h,
                            stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, packed),
                    dy, weight, dx);
}

// Adds the gradient to dw [out, in of a group, cells], if `stride` is 0. As many blocks (x) as tiles of 64 output
// channels of a group, for each group and each 64 of its input channels times cells. Row blocks have `rows` images; the
// last may have fewer. With another stride, a launch of as many blocks (y) as row blocks writes the sum of row block b
// to dw + b * stride, and add_parts_f32 (column_sums.cu) adds these sums to the gradient, with the same bits.
extern "C" __global__ void __launch_bounds__(TileF32::kThreads, 2)
    conv_dw_f32(const float* x, const float* dy, float* dw, int32_t images, int32_t channels, int32_t height,
                int32_t width, int32_t out_channels, int32_t out_height, int32_t out_width, int32_t k_h, int32_t k_w,
                int32_t stride_h, int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h,
                int32_t dilation_w, int32_t groups, int32_t rows, int64_t stride) {
  conv_dw<TileF32>(conv_of(images, channels, height, width, out_channels, out_height, out_width, k_h, k_w, stride_h,
                           stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, 0),
                   x, dy, dw, rows, stride);
}
extern "C" __global__ void __launch_bounds__(TileBf16::kThreads, 4)
    conv_dw_bf16(const Bf16* x, const Bf16* dy, float* dw, int32_t images, int32_t channels, int32_t height,
                 int32_t width, int32_t out_channels, int32_t out_height, int32_t out_width, int32_t k_h, int32_t k_w,
                 int32_t stride_h, int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h,
                 int32_t dilation_w, int32_t groups, int32_t rows, int64_t stride) {
  conv_dw<TileBf16>(conv_of(images, channels, height, width, out_channels, out_height, out_width, k_h, k_w, stride_h,
                            stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, 0),
                    x, dy, dw, rows, stride);
}
