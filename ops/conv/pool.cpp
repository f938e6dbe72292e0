// Pooling of images: the largest value or the mean of each k x k window. Cells outside the image do not count. H' =
// floor((H + 2 pad - k) / stride) + 1. Each argument is one number, or one for the height and one for the width.
// Tests: tests/ops/oracles_test.cpp, tests/ops/conformance_test.cpp
#include <algorithm>
#include <array>
#include <cmath>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/conv/pool_formulas.h"
#include "ops/dnn/window.h"
#include "ops/loops/columns.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/simd/convert.h"

namespace xrun::ops {
namespace {

struct Window {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t out_height = 0;
  int64_t out_width = 0;
  Extents k;
  Extents stride;
  Extents pad;
};

Extents pad_of(const Attrs& attrs, const Extents& k) {
  return extents_of(attrs, "pad", {(k.h - 1) / 2, (k.w - 1) / 2});
}

// REQUIRES: the window, its steps and the padding are in their ranges.
Window window_of(const TensorType& x, const Attrs& attrs) {
  const Extents k = extents_of(attrs, "k");
  Window w{.channels = x.dims[1],
           .height = x.dims[2],
           .width = x.dims[3],
           .k = k,
           .stride = extents_of(attrs, "stride", {1, 1}),
           .pad = pad_of(attrs, k)};
  w.out_height = (w.height + 2 * w.pad.h - w.k.h) / w.stride.h + 1;
  w.out_width = (w.width + 2 * w.pad.w - w.k.w) / w.stride.w + 1;
  return w;
}

Result<OpShape> infer_pool(std::string_view op, const TensorType& x, const Attrs& attrs) {
  XRUN_TRY(expect_image(op, x));
  const Extents k = extents_of(attrs, "k");
  XRUN_TRY(expect_range(op, "k", k, 1, 4096));
  XRUN_TRY(expect_range(op, "stride", extents_of(attrs, "stride", {1, 1}), 1, 4096));
  // The padding is less than the window, so that no window is completely outside the image and has no value.
  XRUN_TRY(expect_range(op, "pad", pad_of(attrs, k), 0, Extents{k.h - 1, k.w - 1}));
  const Window w = window_of(x, attrs);
  if (w.height + 2 * w.pad.h < w.k.h || w.width + 2 * w.pad.w < w.k.w) {
    return shape_error("`" + std::string(op) + "` with a window of " + to_text(w.k) + " does not fit " + to_text(x) +
                           " with pad=" + to_text(w.pad),
                       "make `k` smaller or `pad` larger");
  }
  XRUN_TRY(expect_range(op, "positions of an image", w.height * w.width, 1, 1 << 24));
  return OpShape{{with_dims(x, {kBatch, w.channels, w.out_height, w.out_width})}};
}

Result<OpShape> infer_max(std::span<const TensorType> in, const Attrs& attrs) {
  return infer_pool("max_pool", in[0], attrs);
}
Result<OpShape> infer_avg(std::span<const TensorType> in, const Attrs& attrs) {
  return infer_pool("avg_pool", in[0], attrs);
}

// Gradients take the height and width of the input as arguments, because with a stride they do not follow from dy.
Result<OpShape> infer_grad(std::span<const TensorType> in, const Attrs& attrs) {
  const TensorType& dy = in.back();
  return OpShape{{with_dims(dy, {kBatch, dy.dims[1], attrs.integer("height"), attrs.integer("width_in")})}};
}

OpCost pool_cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  return pointwise_cost(in, out, static_cast<double>(extents_of(attrs, "k").area()));
}

// The cost of a gradient: each window is counted once; dy has one element for each window.
OpCost grad_cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  const double area = static_cast<double>(extents_of(attrs, "k").area());
  return {.flops = area * static_cast<double>(in.back().row_elements()), .bytes = traffic(in, out)};
}

Attrs grad_attrs(const GradBuilder& builder) {
  Attrs attrs = builder.node().attrs;
  const TensorType& x = builder.type(builder.input(0));
  attrs.set("height", x.dims[2]);
  attrs.set("width_in", x.dims[3]);
  return attrs;
}

Status grad_max(GradBuilder& builder) {
  return builder.set_grads_by("max_pool.grad", {builder.input(0), builder.output_grad(0)}, grad_attrs(builder));
}

Status grad_avg(GradBuilder& builder) {
  return builder.set_grads_by("avg_pool.grad", {builder.output_grad(0)}, grad_attrs(builder));
}

// Computes the pooling of one sample at a time, with channels in lanes.
template <typename T, bool kMax>
struct PoolBody {
  template <class L>
  XRUN_INLINE static void run(const Window* window, const T* x, T* y) {
    const Window& w = *window;
    for (int64_t i = 0; i < w.out_height; ++i) {
      for (int64_t j = 0; j < w.out_width; ++j, y += w.channels) {
        const Cells cells = Cells::of(w, i, j);
        for (int64_t c = 0; c < w.channels; c += kLanes) {
          const int64_t n = w.channels - c;
          L value = kMax ? broadcast<L>(-INFINITY) : L{};
          for (int64_t u = cells.top; u < cells.bottom; ++u) {
            for (int64_t v = cells.left; v < cells.right; ++v) {
              const L cell = load_upto<L>(x + (u * w.width + v) * w.channels + c, n);
              if constexpr (kMax) {
                value = unless_beaten(cell, value, value, cell);
              } else {
                value += cell;
              }
            }
          }
          store_upto(y + c, kMax ? value : value / cells.count(), n);
        }
      }
    }
  }
};

// Adds the gradient of each window to dx, which is f32 and zero at the start: to the first of the largest cells (kMax),
// or in equal shares to all its cells.
template <typename T, bool kMax>
struct PoolGradBody {
  template <class L>
  XRUN_INLINE static void run(const Window* window, const T* x, const T* dy, float* dx) {
    const Window& w = *window;
    for (int64_t i = 0; i < w.out_height; ++i) {
      for (int64_t j = 0; j < w.out_width; ++j, dy += w.channels) {
        const Cells cells = Cells::of(w, i, j);
        for (int64_t c = 0; c < w.channels; c += kLanes) {
          const int64_t n = w.channels - c;
          L share = load_upto<L>(dy + c, n);
          L winner{};  // position of the largest cell: whole numbers below 2^24 are exact
          if constexpr (kMax) {
            L value = broadcast<L>(-INFINITY);
            for (int64_t u = cells.top; u < cells.bottom; ++u) {
              for (int64_t v = cells.left; v < cells.right; ++v) {
                const L cell = load_upto<L>(x + (u * w.width + v) * w.channels + c, n);
                winner = unless_beaten(cell, value, winner, broadcast<L>(static_cast<float>(u * w.width + v)));
                value = unless_beaten(cell, value, value, cell);
              }
            }
          } else {
            share = share / cells.count();
          }
          for (int64_t u = cells.top; u < cells.bottom; ++u) {
            for (int64_t v = cells.left; v < cells.right; ++v) {
              float* const to = dx + (u * w.width + v) * w.channels + c;
              const L here = broadcast<L>(static_cast<float>(u * w.width + v));
              const L taken = choose<_CMP_EQ_OQ>(winner, here, share, L{});
              store_upto(to, load_upto<L>(to, n) + (kMax ? taken : share), n);
            }
          }
        }
      }
    }
  }
};

template <typename T, bool kMax>
Result<std::unique_ptr<Kernel>> make_pool(const KernelSpec& spec) {
  const Window window = window_of(spec.inputs[0], spec.attrs);
  const int64_t in = spec.inputs[0].row_elements();
  const int64_t out = spec.outputs[0].row_elements();
  return kernel_over_rows(spec.rows, [isa = spec.isa, window, in, out](const KernelCall& call, Range some) {
    for (int64_t r = some.begin; r < some.end; ++r) {
      run_for<PoolBody<T, kMax>>(isa, &window, call.inputs[0].as<T>() + r * in, call.outputs[0].as<T>() + r * out);
    }
  });
}

// Inputs: x (only for max_pool), dy.
template <typename T, bool kMax>
Result<std::unique_ptr<Kernel>> make_pool_grad(const KernelSpec& spec) {
  const Window window = window_of(spec.outputs[0], spec.attrs);
  const int64_t n = spec.outputs[0].row_elements();
  const int64_t out = spec.inputs.back().row_elements();
  return kernel_over_rows(
      spec.rows,
      [isa = spec.isa, window, n, out](const KernelCall& call, Range some) {
        auto* const sums = reinterpret_cast<float*>(call.scratch);
        for (int64_t r = some.begin; r < some.end; ++r) {
          const T* const x = call.inputs[0].as<T>() + (kMax ? r * n : 0);  // an average does not read x
          T* const dx = call.outputs[0].as<T>() + r * n;
          std::fill_n(sums, n, 0.0F);
          run_for<PoolGradBody<T, kMax>>(isa, &window, x, call.inputs.back().as<const T>() + r * out, sums);
          if constexpr (std::is_same_v<T, float>) {
            std::copy_n(sums, n, dx);
          } else {
            narrow(isa, sums, dx, n);
          }
        }
      },
      n * static_cast<Bytes>(sizeof(float)));
}

constexpr Op kMaxPool{
    .def = {.name = "max_pool",
            .signature = "(x: [N, C, H, W], k: pair, stride: pair = 1, pad: pair = (k - 1) // 2)",
            .group = "pooling",
            .doc = "the largest cell of each k x k window",
            .example = "max_pool(3, stride=2)",
            .aliases =
                "max_pool2d(stride=k) max_pooling2d(stride=k) kernel_size=k pool_size=k strides=stride padding=pad",
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_max,
            .cost = pool_cost,
            .grad = grad_max,
            .shard = "nc__->nc__"},
    .cpu = by_dtype<make_pool<float, true>, make_pool<Bf16, true>, make_pool<Half, true>>};

constexpr Op kMaxPoolGrad{
    .def = {.name = "max_pool.grad",
            .signature = "(x: [N, C, H, W], dy: [N, C, I, J])",
            .group = "pooling",
            .doc = "gradient of max_pool: to the first largest cell of each window",
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_grad,
            .cost = grad_cost,
            .shard = "nc__,nc__->nc__"},
    .cpu = by_dtype<make_pool_grad<float, true>, make_pool_grad<Bf16, true>, make_pool_grad<Half, true>>};

constexpr Op kAvgPool{
    .def = {.name = "avg_pool",
            .signature = "(x: [N, C, H, W], k: pair, stride: pair = 1, pad: pair = (k - 1) // 2)",
            .group = "pooling",
            .doc = "the mean of the cells of each k x k window that are inside the image",
            .example = "avg_pool(3, stride=2)",
            .aliases =
                "avg_pool2d(stride=k) average_pooling2d(stride=k) kernel_size=k pool_size=k strides=stride padding=pad",
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_avg,
            .cost = pool_cost,
            .grad = grad_avg,
            .shard = "nc__->nc__"},
    .cpu = by_dtype<make_pool<float, false>, make_pool<Bf16, false>, make_pool<Half, false>>};

constexpr Op kAvgPoolGrad{
    .def = {.name = "avg_pool.grad",
            .signature = "(dy: [N, C, I, J])",
            .group = "pooling",
            .doc = "gradient of avg_pool",
            .layout = LayoutRule::kChannelsLast,
            .infer = infer_grad,
            .cost = grad_cost,
            .shard = "nc__->nc__"},
    .cpu = by_dtype<make_pool_grad<float, false>, make_pool_grad<Bf16, false>, make_pool_grad<Half, false>>};

constexpr std::array<const Op*, 4> kOps{&kMaxPool, &kMaxPoolGrad, &kAvgPool, &kAvgPoolGrad};

}  // namespace

std::span<const Op* const> pool_ops() { return kOps; }

}  // namespace xrun::ops
