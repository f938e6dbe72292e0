// Statistics of the logits of a classifier head by row and class block, their merges in the tree over class blocks, and
// loss and hits from them. The statistics of a range of classes are planes of one f32 a place, in the order of
// HeadStats (ops/head/stats.h): max of z = scale * logit, sum of exp(z - max), sum of the logits (with smoothing), the
// target's logit, `top_k` best logits, `top_k` numbers of their classes. A thread block has 32 places of one class
// block; its eight rows of threads take every eighth class each, 64 at a time, and a tree adds their sums. So no bit
// depends on the number of rows or class blocks of a launch.
//   z       [count, places] logits of the classes from `first` on, for blocks of `size` classes
//   labels  [places] from head_rows (ops/gpu/head/head_rows.h)
//   psi     [places] the targets' logits after the margin, from head_margin
//   plane   numbers from one plane to the next: z may have only some places of the pass
// Tests: tests/ops/gpu/head/head_steps_test.cpp
#include "ops/gpu/head/head_rows.h"
#include "ops/simd/f64_math.h"

using namespace xrun::ops;

namespace xrun::ops {

#include "ops/reduce/insert_best.h"

constexpr int kParts = 8;   // rows of threads of a thread block, in threadIdx.y
constexpr int kStrip = 64;  // numbers that a thread adds before their sum goes to its total

// The class block and the place of a thread.
struct Spot {
  int64_t block;
  int64_t begin;  // first class of the block, counted from the first one of the call
  int64_t classes;
  int64_t place;

  __device__ static Spot here(int64_t count, int64_t size, int64_t places) {
    const int64_t tiles = places / kWarp;
    const int64_t block = blockIdx.x / tiles, begin = block * size;
    return {block, begin, count - begin < size ? count - begin : size, blockIdx.x % tiles * kWarp + threadIdx.x};
  }
};

// Adds the numbers of a column of threads in a tree and returns the sum to the first of them. REQUIRES: all threads of
// the block call it.
__device__ inline float sum_of_parts(float (&parts)[kParts][kWarp], float x) {
  parts[threadIdx.y][threadIdx.x] = x;
  __syncthreads();
  const auto part = [&](int i) { return parts[i][threadIdx.x]; };
  const float sum = ((part(0) + part(4)) + (part(2) + part(6))) + ((part(1) + part(5)) + (part(3) + part(7)));
  __syncthreads();
  return sum;
}

// Calls body(class) for the classes of a thread, and next() after each kStrip of them and after the last.
template <class Body, class Next>
__device__ void for_strips(int64_t classes, const Body& body, const Next& next) {
#pragma unroll 1
  for (int64_t begin = threadIdx.y; begin < classes; begin += kStrip * kParts) {
#pragma unroll 1
    for (int64_t c = begin; c < classes && c < begin + kStrip * kParts; c += kParts) {
      body(c);
    }
    next();
  }
}

// Max and sum of exp(z - max) over a range of classes.
struct ExpSum {
  float max;
  float sum;
};
__device__ inline ExpSum combine(ExpSum left, ExpSum right) {
  // The sum is 0 only if the range has no classes; otherwise it is at least 1.
  if (left.sum == 0 || right.sum == 0) {
    return left.sum == 0 ? right : left;
  }
  const float max = left.max > right.max ? left.max : right.max;
  return {max, left.sum * exp_lanes(left.max - max) + right.sum * exp_lanes(right.max - max)};
}

}  // namespace xrun::ops

// Writes the first four planes of each class block to stats + block * slot. Logits above `filter`, other than the
// target's, count as 0. Blocks of 32 x 8 threads, grids of ceil(count / size) * (places / 32) blocks.
extern "C" __global__ void head_stats(const float* z, const int32_t* labels, const float* targets, const double* psi,
                                      float* stats, int64_t slot, int64_t plane, int64_t count, int64_t size,
                                      int64_t places, int64_t first, float scale, float filter, uint32_t totals) {
  __shared__ float parts[kParts][kWarp];
  const Spot at = Spot::here(count, size, places);
  const int64_t own = labels[at.place] - first - at.begin;  // the target, counted from the first class of the block
  const bool has_target = labels[at.place] >= 0 && own >= 0 && own < at.classes;
  const float target = has_target ? static_cast<float>(psi[at.place]) : 0.0F;
  const float* const column = z + at.begin * places + at.place;
  const auto loss_logit = [&](int64_t c) {
    const float x = column[c * places];
    return has_target && c == own ? target : filter < x ? 0.0F : x;
  };
  float largest = -INFINITY;
  for_strips(
      at.classes,
      [&](int64_t c) {
        const float x = loss_logit(c);
        largest = largest < x ? x : largest;  // NaN is ignored
      },
      [] {});
  parts[threadIdx.y][threadIdx.x] = largest;
  __syncthreads();
  for (int i = 0; i < kParts; ++i) {
    const float other = parts[i][threadIdx.x];
    largest = largest < other ? other : largest;
  }
  __syncthreads();
  const float max = scale * largest;
  float strip = 0, sum = 0, total_strip = 0, total = 0;
  for_strips(
      at.classes,
      [&](int64_t c) {
        const float x = loss_logit(c);
        strip += exp_lanes(__fmaf_rn(scale, x, -max));
        total_strip += x;
      },
      [&] {
        sum += strip;
        total += total_strip;
        strip = total_strip = 0;
      });
  sum = sum_of_parts(parts, sum);
  total = sum_of_parts(parts, total);
  if (threadIdx.y == 0) {
    float* const out = stats + at.block * slot + at.place;
    out[0] = max;
    out[plane] = sum;
    out[2 * plane] = totals != 0 ? total : 0.0F;
    out[3 * plane] = has_target ? targets[at.place] : 0.0F;
  }
}

// Writes the planes of the best logits and classes of each class block, before margin and filter; equal logits are in
// ascending order of class, and places after the last class get -infinity and -1. Each round finds the best class after
// the one of the round before. Launched like head_stats.
extern "C" __global__ void head_best(const float* z, float* stats, int64_t slot, int64_t plane, int64_t count,
                                     int64_t size, int64_t places, int64_t first, int64_t top_k) {
  __shared__ float values[kParts][kWarp];
  __shared__ int32_t classes[kParts][kWarp];
  const Spot at = Spot::here(count, size, places);
  const float* const column = z + at.begin * places + at.place;
  float* const out = stats + at.block * slot + 4 * plane + at.place;
  float before = INFINITY;
  int32_t before_class = -1;
#pragma unroll 1
  for (int64_t i = 0; i < top_k; ++i) {
    float best = -INFINITY;
    int32_t best_class = -1;
#pragma unroll 1
    for (int64_t c = threadIdx.y; c < at.classes; c += kParts) {
      const float x = column[c * places];
      const auto which = static_cast<int32_t>(first + at.begin + c);
      if (x > best && (x < before || (x == before && which > before_class))) {
        best = x;
        best_class = which;
      }
    }
    values[threadIdx.y][threadIdx.x] = best;
    classes[threadIdx.y][threadIdx.x] = best_class;
    __syncthreads();
#pragma unroll 1
    for (int part = 0; part < kParts; ++part) {
      const float x = values[part][threadIdx.x];
      const int32_t which = classes[part][threadIdx.x];
      if (x > best || (x == best && which >= 0 && which < best_class)) {
        best = x;
        best_class = which;
      }
    }
    __syncthreads();
    before = best;
    before_class = best_class;
    if (threadIdx.y == 0) {
      out[i * plane] = best;
      out[(top_k + i) * plane] = __int_as_float(best_class);
    }
  }
}

// out = the statistics of `left` and `right` together, for `pairs` pairs; `right` has the higher classes. The pairs and
// their results follow one another every `step` numbers, and their planes have `places` numbers; `out` may be `left`.
// One thread a pair and place.
extern "C" __global__ void head_merge_stats(float* out, const float* left, const float* right, int64_t step,
                                            int64_t pairs, int64_t places, int64_t top_k) {
  const int64_t i = thread_index();
  if (i >= pairs * places) {
    return;
  }
  const int64_t at = i / places * step + i % places;
  const float* const low = left + at;
  const float* const high = right + at;
  float* const to = out + at;
  const ExpSum both = combine({low[0], low[places]}, {high[0], high[places]});
  to[0] = both.max;
  to[places] = both.sum;
  to[2 * places] = low[2 * places] + high[2 * places];
  to[3 * places] = low[3 * places] + high[3 * places];
  float* const best = to + 4 * places;
#pragma unroll 1
  for (int64_t k = 0; k < 2 * top_k; ++k) {
    best[k * places] = low[(4 + k) * places];
  }
#pragma unroll 1
  for (int64_t k = 0; k < top_k; ++k) {
    insert_best(best, reinterpret_cast<int32_t*>(best + top_k * places), places, top_k, high[(4 + k) * places],
                __float_as_int(high[(4 + top_k + k) * places]));
  }
}

// placed [places] = the labels [rows] of the places, as head_rows writes them. One thread a place.
extern "C" __global__ void head_labels(const int32_t* labels, int32_t* placed, int64_t rows, int64_t block,
                                       int64_t padded, int64_t places, int64_t classes) {
  const int64_t place = thread_index();
  if (place >= places) {
    return;
  }
  const int64_t row = row_at(place, rows, block, padded);
  const int32_t label = row < 0 ? kPadding : labels[row];
  placed[place] = row < 0 || (label >= 0 && label < classes) ? label : kNoTarget;
}

// softmax [rows, 2] = max and 1 / sum of each row, and its loss; both may be null. `stats` are those of all classes,
// `psi` of head_margin for their targets, `classes` the number over which a smoothed loss takes the mean, `factors`
// [rows] may be null. If a logit of a row is NaN, its loss is NaN. A loss that is not finite sets bit 0 of `flags`;
// without `labels` there are no losses. One thread a row.
extern "C" __global__ void head_loss(const float* stats, const double* psi, const int32_t* labels, const float* factors,
                                     float* softmax, float* loss, uint32_t* flags, int64_t rows, int64_t block,
                                     int64_t padded, int64_t places, int64_t classes, double scale, double smoothing) {
  const int64_t row = thread_index();
  if (row >= rows) {
    return;
  }
  const int64_t place = place_of(row, block, padded);
  const float max = stats[place], sum = stats[places + place];
  if (softmax != nullptr) {
    softmax[2 * row] = max;
    softmax[2 * row + 1] = 1.0F / sum;
  }
  if (labels == nullptr) {
    return;
  }
  const double lse = static_cast<double>(max) + log64(static_cast<double>(sum));
  double value = 0 * lse;  // without a target: 0, but NaN if a logit is NaN
  if (labels[place] >= 0) {
    value = lse - (1 - smoothing) * (scale * static_cast<double>(static_cast<float>(psi[place])));
    if (smoothing > 0) {
      value -= smoothing * scale * static_cast<double>(stats[2 * places + place]) / static_cast<double>(classes);
    }
  }
  const auto scaled = static_cast<float>(factors == nullptr ? value : value * static_cast<double>(factors[row]));
  if (loss != nullptr) {
    loss[row] = scaled;
  }
  if (flags != nullptr && scaled - scaled != 0) {
    atomicOr(flags, 1U);
  }
}

// hit[row] = 1 if the target is among the k <= top_k best logits of the row and none is NaN, else 0. One thread a row.
extern "C" __global__ void head_hits(const float* stats, const int32_t* labels, float* hit, int64_t k, int64_t rows,
                                     int64_t block, int64_t padded, int64_t places, int64_t top_k) {
  const int64_t row = thread_index();
  if (row >= rows) {
    return;
  }
  const int64_t place = place_of(row, block, padded);
  const float target = stats[3 * places + place], sum = stats[places + place];
  const float* const best = stats + 4 * places + place;
  int64_t ahead = 0;
#pragma unroll 1
  for (int64_t i = 0; i < top_k; ++i) {
    const float value = best[i * places];
    const int32_t which = __float_as_int(best[(top_k + i) * places]);
    ahead += which >= 0 && (value > target || (value == target && which < labels[place])) ? 1 : 0;
  }
  hit[row] = labels[place] >= 0 && target == target && sum == sum && ahead < k ? 1.0F : 0.0F;
}

// The k <= top_k best classes of each row and their logits, [rows, k]. One thread a row.
extern "C" __global__ void head_top(const float* stats, int32_t* classes, float* scores, int64_t k, int64_t rows,
                                    int64_t block, int64_t padded, int64_t places, int64_t top_k) {
  const int64_t row = thread_index();
  if (row >= rows) {
    return;
  }
  const float* const best = stats + 4 * places + place_of(row, block, padded);
#pragma unroll 1
  for (int64_t i = 0; i < k; ++i) {
    scores[row * k + i] = best[i * places];
    classes[row * k + i] = __float_as_int(best[(top_k + i) * places]);
  }
}

// All classes of each row in ascending order and their logits, [rows, k]; the statistics have the k = top_k best
// classes, which are all of them. Logits that are NaN or minus infinity become NaN. One thread a row.
extern "C" __global__ void head_top_by_class(const float* stats, int32_t* classes, float* scores, int64_t rows,
                                             int64_t block, int64_t padded, int64_t places, int64_t top_k) {
  const int64_t row = thread_index();
  if (row >= rows) {
    return;
  }
  const float* const best = stats + 4 * places + place_of(row, block, padded);
#pragma unroll 1
  for (int64_t i = 0; i < top_k; ++i) {
    scores[row * top_k + i] = NAN;
    classes[row * top_k + i] = static_cast<int32_t>(i);
  }
#pragma unroll 1
  for (int64_t i = 0; i < top_k; ++i) {
    const int32_t which = __float_as_int(best[(top_k + i) * places]);
    if (which >= 0) {
      scores[row * top_k + which] = best[i * places];
    }
  }
}
