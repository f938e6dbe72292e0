// Group norm: y = weight · (x - mean) / sqrt(var + eps) + bias. The channels of a sample are divided into groups of C /
// groups channels; mean and variance are taken over a group, at all its positions. x and y are [N, C, H, W]; weight and
// bias are [C]. Source: Wu and He, "Group Normalization", ECCV 2018.
// Tests: tests/ops/conformance_test.cpp
#include <cmath>

#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/loops/columns.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"

namespace xrun::ops {
namespace {

Result<OpShape> infer_group_norm(std::span<const TensorType> in, const Attrs& attrs) {
  XRUN_TRY(expect_image("group_norm", in[0]));
  const int64_t channels = in[0].dims[1];
  const int64_t groups = attrs.integer("groups");
  XRUN_TRY(expect_range("group_norm", "groups", groups, 1, channels));
  if (channels % groups != 0) {
    return shape_error("`group_norm` cannot split " + to_text(in[0]) + " into " + std::to_string(groups) + " groups",
                       "let `groups` divide the channels");
  }
  if (!(attrs.real("eps") > 0)) {
    return argument_error("`group_norm` has eps = " + to_text(attrs.real("eps")), "write an eps above 0");
  }
  return OpShape{{with_dims(in[0], in[0].dims)}, {param("weight", {channels}, kOnes), param("bias", {channels})}};
}

// Inputs: x, dy, weight. Outputs: dx, dweight, dbias.
Result<OpShape> infer_grad(std::span<const TensorType> in, const Attrs&) {
  const TensorType weight = weight_type(in[2].dims);
  return OpShape{{with_dims(in[0], in[0].dims), weight, weight}};
}

OpCost norm_cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return pointwise_cost(in, out, 8);
}

Status grad_group_norm(GradBuilder& builder) {
  return builder.set_grads_by("group_norm.grad", {builder.input(0), builder.output_grad(0), builder.input(1)},
                              builder.node().attrs);
}

struct Sizes {
  explicit Sizes(const KernelSpec& spec)
      : channels(spec.inputs[0].dims[1]),
        positions(spec.inputs[0].row_elements() / channels),
        width(channels / spec.attrs.integer("groups")),
        eps(static_cast<float>(spec.attrs.real("eps"))) {}
  int64_t sample() const { return positions * channels; }
  int64_t channels, positions;
  int64_t width;  // channels in a group
  float eps;
};

// Replaces the sum of each channel by the mean over its group.
template <typename Number>
XRUN_INLINE void average_groups(Number* sums, const Sizes& s) {
  for (int64_t first = 0; first < s.channels; first += s.width) {
    double total = 0;
    for (int64_t c = first; c < first + s.width; ++c) {
      total += static_cast<double>(sums[c]);
    }
    const double mean = total / static_cast<double>(s.width * s.positions);
    for (int64_t c = first; c < first + s.width; ++c) {
      sums[c] = static_cast<Number>(mean);
    }
  }
}

// Computes the mean and 1 / sqrt(var + eps) of each channel's group, for one sample.
template <class L, typename T>
XRUN_INLINE void measure(const T* x, const Sizes& s, float* mean, float* rstd) {
  const auto sums_to = [&](float* to) __attribute__((always_inline)) {
    return [to](int64_t c, int64_t n, const double(*totals)[kLanes]) __attribute__((always_inline)) {
      for (int64_t i = 0; i < n; ++i) {
        to[c + i] = static_cast<float>(totals[0][i]);
      }
    };
  };
  reduce_columns<L, 1>(
      s.positions, 0, s.channels,
      [&](int64_t p, int64_t c, int64_t n, L * acc)
          __attribute__((always_inline)) { acc[0] += load_upto<L>(x + p * s.channels + c, n); },
      sums_to(mean));
  average_groups(mean, s);
  reduce_columns<L, 1>(
      s.positions, 0, s.channels,
      [&](int64_t p, int64_t c, int64_t n, L * acc) __attribute__((always_inline)) {
        const L v = load_upto<L>(x + p * s.channels + c, n) - load_upto<L>(mean + c, n);
        acc[0] += v * v;
      },
      sums_to(rstd));
  average_groups(rstd, s);
  for (int64_t c = 0; c < s.channels; ++c) {
    rstd[c] = 1.0F / std::sqrt(rstd[c] + s.eps);
  }
}

template <typename T>
struct ForwardBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, const float* weight, const float* bias, T* y, const Sizes& s, float* mean,
                              float* rstd) {
    measure<L>(x, s, mean, rstd);
    for (int64_t p = 0; p < s.positions; ++p, x += s.channels, y += s.channels) {
      for (int64_t c = 0; c < s.channels; c += kLanes) {
        const int64_t n = s.channels - c;
        const L scaled = (load_upto<L>(x + c, n) - load_upto<L>(mean + c, n)) * load_upto<L>(rstd + c, n);
        store_upto(y + c, scaled * load_upto<L>(weight + c, n) + load_upto<L>(bias + c, n), n);
      }
    }
  }
};

// Computes dx = rstd · (g - mean(g) - x̂ · mean(g · x̂)) for one sample, with g = weight · dy, x̂ = (x - mean) · rstd,
// and means over the group. Adds the sums of dy · x̂ and of dy to the gradients of weight and bias.
template <typename T>
struct GradBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, const T* dy, const float* weight, T* dx, const Sizes& s, float* mean,
                              float* rstd, float* mean_g, float* mean_gx, double* dweight, double* dbias) {
    measure<L>(x, s, mean, rstd);
    reduce_columns<L, 2>(
        s.positions, 0, s.channels,
        [&](int64_t p, int64_t c, int64_t n, L * acc) __attribute__((always_inline)) {
          const L g = load_upto<L>(dy + p * s.channels + c, n);
          acc[0] +=
              g * ((load_upto<L>(x + p * s.channels + c, n) - load_upto<L>(mean + c, n)) * load_upto<L>(rstd + c, n));
          acc[1] += g;
        },
        [&](int64_t c, int64_t n, const double(*totals)[kLanes]) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            dweight[c + i] += totals[0][i];
            dbias[c + i] += totals[1][i];
            mean_gx[c + i] = static_cast<float>(totals[0][i]) * weight[c + i];
            mean_g[c + i] = static_cast<float>(totals[1][i]) * weight[c + i];
          }
        });
    average_groups(mean_g, s);
    average_groups(mean_gx, s);
    for (int64_t p = 0; p < s.positions; ++p, x += s.channels, dy += s.channels, dx += s.channels) {
      for (int64_t c = 0; c < s.channels; c += kLanes) {
        const int64_t n = s.channels - c;
        const L r = load_upto<L>(rstd + c, n);
        const L scaled = (load_upto<L>(x + c, n) - load_upto<L>(mean + c, n)) * r;
        const L g = load_upto<L>(dy + c, n) * load_upto<L>(weight + c, n);
        store_upto(dx + c, (g - load_upto<L>(mean_g + c, n) - scaled * load_upto<L>(mean_gx + c, n)) * r, n);
      }
    }
  }
};

template <typename T>
Result<std::unique_ptr<Kernel>> make_forward(const KernelSpec& spec) {
  const Sizes s(spec);
  return kernel_over_rows(
      spec.rows,
      [isa = spec.isa, s](const KernelCall& call, Range some) {
        auto* const mean = reinterpret_cast<float*>(call.scratch);
        for (int64_t r = some.begin; r < some.end; ++r) {
          run_for<ForwardBody<T>, const T*, const float*, const float*, T*, const Sizes&>(
              isa, call.inputs[0].as<T>() + r * s.sample(), call.inputs[1].as<float>(), call.inputs[2].as<float>(),
              call.outputs[0].as<T>() + r * s.sample(), s, mean, mean + s.channels);
        }
      },
      2 * s.channels * static_cast<Bytes>(sizeof(float)));
}

template <typename T>
Result<std::unique_ptr<Kernel>> make_grad(const KernelSpec& spec) {
  const Sizes s(spec);
  return kernel_of(
      [isa = spec.isa, rows = spec.rows, s](const KernelCall& call) {
        auto* const dweight = reinterpret_cast<double*>(call.scratch);
        double* const dbias = dweight + s.channels;
        std::fill_n(dweight, 2 * s.channels, 0.0);
        auto* const mean = reinterpret_cast<float*>(dbias + s.channels);
        float* const rstd = mean + s.channels;
        for (int64_t r = 0; r < rows; ++r) {
          run_for<GradBody<T>, const T*, const T*, const float*, T*, const Sizes&>(
              isa, call.inputs[0].as<T>() + r * s.sample(), call.inputs[1].as<T>() + r * s.sample(),
              call.inputs[2].as<float>(), call.outputs[0].as<T>() + r * s.sample(), s, mean, rstd, rstd + s.channels,
              rstd + 2 * s.channels, dweight, dbias);
        }
        for (int64_t c = 0; c < s.channels; ++c) {
          call.outputs[1].as<float>()[c] += static_cast<float>(dweight[c]);
          call.outputs[2].as<float>()[c] += static_cast<float>(dbias[c]);
        }
      },
      s.channels * static_cast<Bytes>(2 * sizeof(double) + 4 * sizeof(float)));
}

}  // namespace

constinit const Op kGroupNorm{.def = {.name = "group_norm",
                                      .signature = "(x: [N, C, H, W], groups: int, eps: float = 1e-5)",
                                      .group = "norm",
                                      .doc = "zero mean and unit variance of each group of channels of a sample",
                                      .example = "group_norm(32)",
                                      .aliases = "group_normalization num_groups=groups num_channels= epsilon=eps",
                                      .layout = LayoutRule::kChannelsLast,
                                      .infer = infer_group_norm,
                                      .cost = norm_cost,
                                      .grad = grad_group_norm,
                                      .shard = "ng__,g,g->ng__; groups=g"},
                              .cpu = by_dtype<make_forward<float>, make_forward<Bf16>, make_forward<Half>>};

constinit const Op kGroupNormGrad{.def = {.name = "group_norm.grad",
                                          .signature = "(x: [N, C, H, W], dy: [N, C, H, W], weight: [C])",
                                          .group = "norm",
                                          .doc = "gradients of group_norm: of its input, weight and bias",
                                          .rows = RowProperty::kReduces,
                                          .layout = LayoutRule::kChannelsLast,
                                          .infer = infer_grad,
                                          .cost = norm_cost,
                                          .shard = "ng__,ng__,g->ng__,g,g; groups=g"},
                                  .cpu = by_dtype<make_grad<float>, make_grad<Bf16>, make_grad<Half>>};

}  // namespace xrun::ops
