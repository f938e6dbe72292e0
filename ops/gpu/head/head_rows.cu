// Rows of classifier heads: rows of features and class rows as operands of the head's products, norms, gradients of
// both, and the updates of class rows. A warp has one row. Sums over a row are f64: 32 running sums, then a tree. Class
// rows of a call are `count` consecutive ones from `first` on, an index in the whole head; their arrays begin at that
// class. Operands and gradients have `stride` numbers a row, a multiple of 32 that is at least `dim`.
// Tests: tests/ops/gpu/head/head_steps_test.cpp
#include "ops/gpu/head/head_rows.h"
#include "ops/optimizer/update_formulas.h"

using namespace xrun::ops;

namespace xrun::ops {

template <typename From, typename To>
__device__ void pack_row(const From* row, float inverse, To* out, int lane, int64_t dim, int64_t stride) {
#pragma unroll 1
  for (int64_t d = lane; d < stride; d += kWarp) {
    assign(out[d], row != nullptr && d < dim ? to_float(row[d]) * inverse : 0.0F);
  }
}

template <typename From, typename To>
__device__ void pack_features(const From* features, const int32_t* labels, To* out, double* inverses, int32_t* placed,
                              int64_t rows, int64_t block, int64_t padded, int64_t places, int64_t dim, int64_t stride,
                              int64_t classes) {
  const WarpRow at = WarpRow::here();
  if (at.row >= places) {
    return;
  }
  const int64_t row = row_at(at.row, rows, block, padded);
  const From* const from = row < 0 ? nullptr : features + row * dim;
  double inverse = 1;
  if (inverses != nullptr) {
    inverse = inverse_norm64(from, at.lane, row < 0 ? 0 : dim);
  }
  pack_row(from, static_cast<float>(inverse), out + at.row * stride, at.lane, dim, stride);
  if (at.lane != 0) {
    return;
  }
  if (inverses != nullptr) {
    inverses[at.row] = inverse;
  }
  const int32_t label = row < 0 || labels == nullptr ? kNoTarget : labels[row];
  placed[at.row] = row < 0 ? kPadding : label >= 0 && label < classes ? label : kNoTarget;
}

template <typename From, typename To>
__device__ void pack_classes(const From* weight, const float* inverses, To* out, int64_t count, int64_t dim,
                             int64_t stride) {
  const WarpRow at = WarpRow::here();
  if (at.row < count) {
    pack_row(weight + at.row * dim, inverses == nullptr ? 1.0F : inverses[at.row], out + at.row * stride, at.lane, dim,
             stride);
  }
}

template <typename T>
__device__ void norms(const T* weight, float* inverses, int64_t count, int64_t dim) {
  const WarpRow at = WarpRow::here();
  if (at.row >= count) {
    return;
  }
  const double inverse = inverse_norm64(weight + at.row * dim, at.lane, dim);
  if (at.lane == 0) {
    inverses[at.row] = static_cast<float>(inverse);
  }
}

template <typename T>
__device__ void project(const T* weight, const float* inverses, float* g, double* squares, int64_t count, int64_t dim,
                        int64_t stride) {
  const WarpRow at = WarpRow::here();
  if (at.row >= count) {
    return;
  }
  const T* const w = weight + at.row * dim;
  float* const gradient = g + at.row * stride;
  const float inverse = inverses == nullptr ? 1.0F : inverses[at.row];
  float along = 0;
  if (inverse < 1.0F / kSmallestNorm) {  // otherwise the row is divided by a constant
    const double products = sum_over_row(at.lane, inverses == nullptr ? 0 : dim, [&](int64_t d) {
      return static_cast<double>(gradient[d]) * static_cast<double>(to_float(w[d]));
    });
    along = static_cast<float>(products * static_cast<double>(inverse) * static_cast<double>(inverse));
  }
  const double sum = sum_over_row(at.lane, dim, [&](int64_t d) {
    const float y = inverses == nullptr ? gradient[d] : __fmaf_rn(to_float(w[d]), -along, gradient[d]) * inverse;
    gradient[d] = y;
    return static_cast<double>(y) * static_cast<double>(y);
  });
  if (squares != nullptr && at.lane == 0) {
    squares[at.row] = sum;
  }
}

template <typename F>
__device__ void reduce_dx(const float* dx, const F* features, bool cosine, float* out, int64_t rows, int64_t block,
                          int64_t padded, int64_t dim, int64_t stride, float scale) {
  const WarpRow at = WarpRow::here();
  if (at.row >= rows) {
    return;
  }
  const float* const g = dx + place_of(at.row, block, padded) * stride;
  const F* const x = features + at.row * dim;
  const float inverse = cosine ? static_cast<float>(inverse_norm64(x, at.lane, dim)) : 1.0F;
  const auto exact = static_cast<double>(inverse);
  double along = 0;
  if (inverse < 1.0F / kSmallestNorm) {
    along = sum_over_row(at.lane, cosine ? dim : 0,
                         [&](int64_t d) { return static_cast<double>(g[d]) * static_cast<double>(to_float(x[d])); }) *
            (exact * exact);
  }
#pragma unroll 1
  for (int64_t d = at.lane; d < dim; d += kWarp) {
    const auto plain = static_cast<double>(g[d]);
    const double across = (plain - along * static_cast<double>(to_float(x[d]))) * exact;
    out[at.row * dim + d] = static_cast<float>(cosine ? across : plain) * scale;
  }
}

// The rules of a head's update; the two states that a rule lacks are null.
enum HeadRule : uint32_t { kSgd, kMomentum, kNesterov, kAdamw };

// Kind of a rounded value, which is part of the key of its draws (ops/head/class_rows.cpp).
constexpr uint64_t kWeightDraw = 0x636c617373;
constexpr uint64_t kStateDraw = kWeightDraw + 1;

template <typename T, typename S>
__device__ void update_rows(uint32_t rule, const KnownScalars* scalars, const float* grad_scale, const uint32_t* flags,
                            T* weight, const float* g, S* state0, S* state1, S* mean, float* inverses, int64_t count,
                            int64_t dim, int64_t stride, int64_t first, uint64_t seed, uint64_t step, float take) {
  const WarpRow at = WarpRow::here();
  if (at.row >= count || *flags != 0) {
    return;
  }
  KnownScalars known = *scalars;
  if (grad_scale != nullptr) {
    known.grad_scale = *grad_scale;
  }
  const auto random = [&](uint64_t what) {
    return xrun::stream_key(seed, step, static_cast<uint64_t>(first + at.row), what);
  };
  const int states = rule == kSgd ? 0 : rule == kAdamw ? 2 : 1;
  const int64_t begin = at.row * dim;
#pragma unroll 1
  for (int64_t d = at.lane; d < dim; d += kWarp) {
    const float w = to_float(weight[begin + d]), gradient = g[at.row * stride + d];
    float moved = 0, none = 0;
    float s0 = states > 0 ? to_float(state0[begin + d]) : 0.0F, s1 = states > 1 ? to_float(state1[begin + d]) : 0.0F;
    if (rule == kSgd) {
      moved = SgdRule::step(known, w, gradient, none, none);
    } else if (rule == kMomentum) {
      moved = MomentumRule::step(known, w, gradient, s0, none);
    } else if (rule == kNesterov) {
      moved = NesterovRule::step(known, w, gradient, s0, none);
    } else {
      moved = AdamwRule::step(known, w, gradient, s0, s1);
    }
    store_element(weight[begin + d], moved, random(kWeightDraw), d);
    if (states > 0) {
      store_element(state0[begin + d], s0, random(kStateDraw), d);
    }
    if (states > 1) {
      store_element(state1[begin + d], s1, random(kStateDraw + 1), d);
    }
    if (mean != nullptr) {
      const float follows = moved_mean(to_float(mean[begin + d]), moved, take);
      store_element(mean[begin + d], follows, random(kStateDraw + static_cast<uint64_t>(states)), d);
    }
  }
  if (inverses != nullptr) {
    const double inverse = inverse_norm64(weight + begin, at.lane, dim);
    if (at.lane == 0) {
      inverses[at.row] = static_cast<float>(inverse);
    }
  }
}

}  // namespace xrun::ops

// head_rows_T_U: features T [rows, dim] to operands U [places, stride], normalised if `inverses` is not null, which
// then gets 1 / norm of each place. `placed` gets the labels of the places; `labels` may be null. A warp a place.
extern "C" __global__ void head_rows_f32_f32(const float* features, const int32_t* labels, float* out, double* inverses,
                                             int32_t* placed, int64_t rows, int64_t block, int64_t padded,
                                             int64_t places, int64_t dim, int64_t stride, int64_t classes) {
  pack_features(features, labels, out, inverses, placed, rows, block, padded, places, dim, stride, classes);
}
extern "C" __global__ void head_rows_f32_bf16(const float* features, const int32_t* labels, Bf16* out, double* inverses,
                                              int32_t* placed, int64_t rows, int64_t block, int64_t padded,
                                              int64_t places, int64_t dim, int64_t stride, int64_t classes) {
  pack_features(features, labels, out, inverses, placed, rows, block, padded, places, dim, stride, classes);
}
extern "C" __global__ void head_rows_bf16_bf16(const Bf16* features, const int32_t* labels, Bf16* out, double* inverses,
                                               int32_t* placed, int64_t rows, int64_t block, int64_t padded,
                                               int64_t places, int64_t dim, int64_t stride, int64_t classes) {
  pack_features(features, labels, out, inverses, placed, rows, block, padded, places, dim, stride, classes);
}

// head_classes_T_U: class rows T [count, dim] to operands U [count, stride], each times its `inverses`, which may be
// null. A warp a class.
extern "C" __global__ void head_classes_f32_f32(const float* weight, const float* inverses, float* out, int64_t count,
                                                int64_t dim, int64_t stride) {
  pack_classes(weight, inverses, out, count, dim, stride);
}
extern "C" __global__ void head_classes_f32_bf16(const float* weight, const float* inverses, Bf16* out, int64_t count,
                                                 int64_t dim, int64_t stride) {
  pack_classes(weight, inverses, out, count, dim, stride);
}
extern "C" __global__ void head_classes_bf16_f32(const Bf16* weight, const float* inverses, float* out, int64_t count,
                                                 int64_t dim, int64_t stride) {
  pack_classes(weight, inverses, out, count, dim, stride);
}
extern "C" __global__ void head_classes_bf16_bf16(const Bf16* weight, const float* inverses, Bf16* out, int64_t count,
                                                  int64_t dim, int64_t stride) {
  pack_classes(weight, inverses, out, count, dim, stride);
}

// head_norms_T: inverses[c] = 1 / max(norm of class row c, 1e-12). A warp a class.
extern "C" __global__ void head_norms_f32(const float* weight, float* inverses, int64_t count, int64_t dim) {
  norms(weight, inverses, count, dim);
}
extern "C" __global__ void head_norms_bf16(const Bf16* weight, float* inverses, int64_t count, int64_t dim) {
  norms(weight, inverses, count, dim);
}

// head_project_T: replaces the gradients g [count, stride] of normalised class rows by those of the rows themselves;
// without `inverses` they stay. `squares` [count], unless null, gets the sum of squares of each row. A warp a class.
extern "C" __global__ void head_project_f32(const float* weight, const float* inverses, float* g, double* squares,
                                            int64_t count, int64_t dim, int64_t stride) {
  project(weight, inverses, g, squares, count, dim, stride);
}
extern "C" __global__ void head_project_bf16(const Bf16* weight, const float* inverses, float* g, double* squares,
                                             int64_t count, int64_t dim, int64_t stride) {
  project(weight, inverses, g, squares, count, dim, stride);
}

// out = left + right for `pairs` pairs of partial results of `elements` numbers. The pairs and their results follow one
// another every `step` numbers; `out` may be `left`. One thread a pair and element.
extern "C" __global__ void head_merge_dx(float* out, const float* left, const float* right, int64_t step, int64_t pairs,
                                         int64_t elements) {
  const int64_t i = thread_index();
  if (i < pairs * elements) {
    const int64_t at = i / elements * step + i % elements;
    out[at] = left[at] + right[at];
  }
}

// head_reduce_dx_F: out [rows, dim] = scale * the gradient of the features F, from the dX [places, stride] of all
// classes; for a cosine head through the normalisation of the features. A warp a row.
extern "C" __global__ void head_reduce_dx_f32(const float* dx, const float* features, uint32_t cosine, float* out,
                                              int64_t rows, int64_t block, int64_t padded, int64_t dim, int64_t stride,
                                              float scale) {
  reduce_dx(dx, features, cosine != 0, out, rows, block, padded, dim, stride, scale);
}
extern "C" __global__ void head_reduce_dx_bf16(const float* dx, const Bf16* features, uint32_t cosine, float* out,
                                               int64_t rows, int64_t block, int64_t padded, int64_t dim, int64_t stride,
                                               float scale) {
  reduce_dx(dx, features, cosine != 0, out, rows, block, padded, dim, stride, scale);
}

// sums[b] = the sum of the squares of the rows of class block b, which has `size` classes. A warp a block.
extern "C" __global__ void head_block_squares(const double* squares, double* sums, int64_t count, int64_t size) {
  const WarpRow at = WarpRow::here();
  const int64_t begin = at.row * size;
  if (begin < count) {
    const double sum = sum_over_row(at.lane, count - begin < size ? count - begin : size,
                                    [&](int64_t c) { return squares[begin + c]; });
    if (at.lane == 0) {
      sums[at.row] = sum;
    }
  }
}

// head_update_T_S: updates class rows T [count, dim] and their states S with the gradients g [count, stride] by the
// HeadRule `rule`, unless the flag word is not zero: then it changes nothing. `grad_scale`, unless null, takes the
// place of that of the scalars. Narrow rows are rounded at random by (seed, step, class). `mean`, the running mean of
// the rows, and `inverses`, their norms to be computed anew, may be null. A warp a class. Biases are rows of one
// number.
extern "C" __global__ void head_update_f32_f32(uint32_t rule, const KnownScalars* scalars, const float* grad_scale,
                                               const uint32_t* flags, float* weight, const float* g, float* state0,
                                               float* state1, float* mean, float* inverses, int64_t count, int64_t dim,
                                               int64_t stride, int64_t first, uint64_t seed, uint64_t step,
                                               float take) {
  update_rows(rule, scalars, grad_scale, flags, weight, g, state0, state1, mean, inverses, count, dim, stride, first,
              seed, step, take);
}
extern "C" __global__ void head_update_f32_bf16(uint32_t rule, const KnownScalars* scalars, const float* grad_scale,
                                                const uint32_t* flags, float* weight, const float* g, Bf16* state0,
                                                Bf16* state1, Bf16* mean, float* inverses, int64_t count, int64_t dim,
                                                int64_t stride, int64_t first, uint64_t seed, uint64_t step,
                                                float take) {
  update_rows(rule, scalars, grad_scale, flags, weight, g, state0, state1, mean, inverses, count, dim, stride, first,
              seed, step, take);
}
extern "C" __global__ void head_update_bf16_f32(uint32_t rule, const KnownScalars* scalars, const float* grad_scale,
                                                const uint32_t* flags, Bf16* weight, const float* g, float* state0,
                                                float* state1, float* mean, float* inverses, int64_t count, int64_t dim,
                                                int64_t stride, int64_t first, uint64_t seed, uint64_t step,
                                                float take) {
  update_rows(rule, scalars, grad_scale, flags, weight, g, state0, state1, mean, inverses, count, dim, stride, first,
              seed, step, take);
}
extern "C" __global__ void head_update_bf16_bf16(uint32_t rule, const KnownScalars* scalars, const float* grad_scale,
                                                 const uint32_t* flags, Bf16* weight, const float* g, Bf16* state0,
                                                 Bf16* state1, Bf16* mean, float* inverses, int64_t count, int64_t dim,
                                                 int64_t stride, int64_t first, uint64_t seed, uint64_t step,
                                                 float take) {
  update_rows(rule, scalars, grad_scale, flags, weight, g, state0, state1, mean, inverses, count, dim, stride, first,
              seed, step, take);
}
