#include "ops/conv/depthwise_gradient.h"

#include <algorithm>

#include "ops/make_kernel.h"

namespace xrun::ops {
namespace {

// The largest number of columns of a window whose sums fit into registers at once.
constexpr int kMostColumns = 5;

// Adds the products of a row of dy with a row of x to the sums of some columns of the window, [columns][16]. `row`
// points into the row of x, to the pixel that output 0 multiplies by the first of these columns; it has sixteen
// channels of each pixel, in f32.
template <int kColumns>
struct ColumnSums {
  template <class L, typename T>
  XRUN_INLINE static void add(const dnn::ConvShape& s, const T* dy, int64_t channels, const float* row, float* sums) {
    L sum[kColumns];
#pragma GCC unroll 5
    for (int v = 0; v < kColumns; ++v) {
      sum[v] = load<L>(sums + v * kLanes);
    }
    const int64_t out_width = s.out_width();
    for (int64_t j = 0; j < out_width; ++j, row += s.stride.w * kLanes) {
      const L gradient = load_upto<L>(dy + j * s.channels, channels);
#pragma GCC unroll 5
      for (int v = 0; v < kColumns; ++v) {
        sum[v] += load<L>(row + v * s.dilation.w * kLanes) * gradient;
      }
    }
#pragma GCC unroll 5
    for (int v = 0; v < kColumns; ++v) {
      store(sums + v * kLanes, sum[v]);
    }
  }

  // Like add_row, for a number of columns that is known only at run time and is at most kColumns.
  template <class L, typename T>
  XRUN_INLINE static void add_some(int64_t columns, const dnn::ConvShape& s, const T* dy, int64_t channels,
                                   const float* row, float* sums) {
    if (columns == kColumns) {
      add<L>(s, dy, channels, row, sums);
    } else if constexpr (kColumns > 1) {
      ColumnSums<kColumns - 1>::template add_some<L>(columns, s, dy, channels, row, sums);
    }
  }
};

// The working memory of a part, in f32: a row of sixteen channels of x with its padding, then the sums of one image and
// of all images, both [groups of sixteen channels][k][k][16].
struct Scratch {
  Scratch(const dnn::ConvShape& s, int64_t channels)
      : row(((s.out_width() - 1) * s.stride.w + s.reach().w) * kLanes),
        window(s.kernel.area() * kLanes),
        sums(runs_of(channels, kLanes) * window) {}
  int64_t elements() const { return row + 2 * sums; }

  int64_t row;
  int64_t window;
  int64_t sums;
};

// Adds the weight gradient of some channels to the output. For each image, the loop goes over the rows of x; it copies
// a row to scratch, sixteen channels at a time and with padding, and adds its products with all rows of dy that use it
// to the sums of the image. After each image, these sums are added to the sums over all images, so that rounding errors
// do not grow with the number of rows.
template <typename T>
struct GradientBody {
  template <class L>
  XRUN_INLINE static void run(const dnn::ConvShape* shape, Range channels, const T* x, const T* dy, float* memory,
                              float* dw) {
    const dnn::ConvShape& s = *shape;
    const Scratch scratch(s, channels.size());
    float* const row = memory;
    float* const sums = row + scratch.row;
    float* const totals = sums + scratch.sums;
    std::fill_n(row, scratch.row, 0.0F);
    std::fill_n(totals, scratch.sums, 0.0F);
    for (int64_t n = 0; n < s.rows; ++n) {
      std::fill_n(sums, scratch.sums, 0.0F);
      // Reads the rows of x in order, each with all its channels, since reading a few channels of each pixel would be
      // slow.
      for (int64_t y = 0; y < s.height; ++y) {
        for (int64_t c = channels.begin; c < channels.end; c += kLanes) {
          add_row<L>(s, n, y, c, x, dy, row, sums + (c - channels.begin) / kLanes * scratch.window);
        }
      }
      for (int64_t at = 0; at < scratch.sums; at += kLanes) {
        store(totals + at, load<L>(totals + at) + load<L>(sums + at));
      }
    }
    const int64_t area = s.kernel.area();
    for (int64_t c = channels.begin; c < channels.end; ++c) {
      const float* const total =
          totals + (c - channels.begin) / kLanes * scratch.window + (c - channels.begin) % kLanes;
      for (int64_t at = 0; at < area; ++at) {
        dw[c * area + at] += total[at * kLanes];
      }
    }
  }

  // Adds the products of row y of image n to the sums of the sixteen channels from `channel` on.
  template <class L>
  XRUN_INLINE static void add_row(const dnn::ConvShape& s, int64_t n, int64_t y, int64_t channel, const T* x,
                                  const T* dy, float* row, float* sums) {
    const int64_t channels = std::min<int64_t>(s.channels - channel, kLanes);
    const T* const from = x + (n * s.height + y) * s.width * s.channels + channel;
    // The number of columns of x that outputs read.
    const int64_t read = std::min(s.width, (s.out_width() - 1) * s.stride.w + s.reach().w - s.pad.w);
    for (int64_t j = 0; j < read; ++j) {
      store(row + (s.pad.w + j) * kLanes, load_upto<L>(from + j * s.channels, channels));
    }
    for (int64_t u = 0; u < s.kernel.h; ++u) {
      const int64_t down = y + s.pad.h - u * s.dilation.h;  // y relative to the first row that the output reads
      if (down < 0 || down % s.stride.h != 0 || down / s.stride.h >= s.out_height()) {
        continue;
      }
      const T* const gradient = dy + (n * s.out_height() + down / s.stride.h) * s.out_width() * s.channels + channel;
      for (int64_t v = 0; v < s.kernel.w; v += kMostColumns) {
        ColumnSums<kMostColumns>::template add_some<L>(std::min<int64_t>(s.kernel.w - v, kMostColumns), s, gradient,
                                                       channels, row + v * s.dilation.w * kLanes,
                                                       sums + (u * s.kernel.w + v) * kLanes);
      }
    }
  }
};

template <typename T>
Result<std::unique_ptr<Kernel>> make_for(Isa isa, const dnn::ConvShape& shape) {
  return kernel_over(
      shape.channels, kLanes,
      [isa, shape](const KernelCall& call, Range some) {
        run_for<GradientBody<T>>(isa, &shape, some, call.inputs[0].as<T>(), call.inputs[1].as<T>(),
                                 reinterpret_cast<float*>(call.scratch), call.outputs[0].as<float>());
      },
      Scratch(shape, shape.channels).elements() * static_cast<Bytes>(sizeof(float)));
}

}  // namespace

bool takes_depthwise_gradient(const dnn::ConvShape& shape) {
  const bool is_depthwise = shape.groups > 1 && shape.groups == shape.channels && shape.groups == shape.out_channels;
  return is_depthwise && !(shape.kernel == Extents{3, 3} && shape.dilation == Extents{1, 1});
}

Result<std::unique_ptr<Kernel>> make_depthwise_gradient(const KernelSpec& spec, const dnn::ConvShape& shape) {
  dnn::ConvShape all = shape;
  all.rows = spec.rows;
  return with_type(spec.inputs[0].dtype, [&](auto number) { return make_for<decltype(number)>(spec.isa, all); });
}

}  // namespace xrun::ops
