// Loops over the scores of one window, [heads, t, t] with rows padded to whole lanes: they apply bias, mask and
// softmax, and compute the gradients. Each struct is a body of run_for (ops/simd/simd.h).
#pragma once

#include <cmath>

#include "ops/attention/attention_windows.h"
#include "ops/simd/lane_math.h"
#include "ops/simd/lane_sums.h"

namespace xrun::ops {

// Softmax of each row of scaled scores; rows are `stride` apart, and elements beyond n become 0.
struct SoftmaxBody {
  template <class L>
  XRUN_INLINE static void run(float* scores, int64_t rows, int64_t n, int64_t stride, float scale) {
    for (int64_t r = 0; r < rows; ++r, scores += stride) {
      pad_run(scores, n, -INFINITY);
      L top = load<L>(scores);
      for (int64_t i = kLanes; i < n; i += kLanes) {
        top = max(top, load<L>(scores + i));
      }
      float lanes[kLanes];
      store(lanes, top);
      float most = lanes[0];
      for (int i = 1; i < kLanes; ++i) {
        most = lanes[i] > most ? lanes[i] : most;
      }
      for (int64_t i = 0; i < n; i += kLanes) {
        store(scores + i, exp_lanes((load<L>(scores + i) - most) * scale));
      }
      const L inverse = 1.0F / broadcast<L>(sum_of<L>(scores, n));
      for (int64_t i = 0; i < n; i += kLanes) {
        store(scores + i, load<L>(scores + i) * inverse);
      }
    }
  }
};

// Gradient of the softmax, row by row: dS = scale · P (dP - <P, dP>). The result replaces dP.
struct SoftmaxGradBody {
  template <class L>
  XRUN_INLINE static void run(const float* p, float* dp, int64_t rows, int64_t n, int64_t stride, float scale) {
    for (int64_t r = 0; r < rows; ++r, p += stride, dp += stride) {
      pad_run(dp, n, 0);
      const float along = dot_of<L>(p, dp, n);
      for (int64_t i = 0; i < n; i += kLanes) {
        store(dp + i, load<L>(p + i) * (load<L>(dp + i) - along) * scale);
      }
    }
  }
};

// Sets the scores of keys that a query must not see to -infinity: with `causal` the keys after the query, and with
// `regions` the keys in another region (Windows::region). `regions` has the region of each token, padded to whole
// lanes; null if all tokens are in one region. A query always attends to itself.
struct MaskBody {
  template <class L>
  XRUN_INLINE static void run(float* scores, int64_t heads, int64_t t, int64_t stride, bool causal,
                              const float* regions) {
    for (int64_t r = 0; r < heads * t; ++r, scores += stride) {
      const int64_t query = r % t;
      for (int64_t k = query + 1; causal && k < t; ++k) {
        scores[k] = -INFINITY;
      }
      for (int64_t k = 0; regions != nullptr && k < t; k += kLanes) {
        const L same = broadcast<L>(regions[query]);
        store(scores + k, choose<_CMP_EQ_OQ>(load<L>(regions + k), same, load<L>(scores + k), broadcast<L>(-INFINITY)));
      }
    }
  }
};

// Calls visit(scores, biases, n) for each query and each row of the window. The n keys of such a row have contiguous
// scores, and contiguous biases in `table`, which has a number for each head and each offset of a key from the query:
// [heads, 2 rows - 1, 2 columns - 1].
template <typename Score, typename Number, typename Visit>
XRUN_INLINE void for_each_offset_run(Score* scores, Number* table, int64_t heads, const Windows& w, int64_t stride,
                                     const Visit& visit) {
  for (int64_t h = 0; h < heads; ++h, table += w.offsets()) {
    for (int64_t query = 0; query < w.tokens(); ++query, scores += stride) {
      const int64_t up = w.rows - 1 - query / w.columns;
      const int64_t left = w.columns - 1 - query % w.columns;
      for (int64_t r = 0; r < w.rows; ++r) {
        visit(scores + r * w.columns, table + (r + up) * (2 * w.columns - 1) + left, w.columns);
      }
    }
  }
}

// Scales the scores and adds the bias of each key's offset from the query: S = scale · S + bias.
struct BiasBody {
  template <class L>
  XRUN_INLINE static void run(float* scores, const float* table, int64_t heads, const Windows& w, int64_t stride,
                              float scale) {
    for_each_offset_run(
        scores, table, heads, w,
        stride, [scale](float* s, const float* bias, int64_t n) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            s[i] = s[i] * scale + bias[i];
          }
        });
  }
};

// Adds dS to the gradient of the table of biases, then multiplies dS by the scale.
struct BiasGradBody {
  template <class L>
  XRUN_INLINE static void run(float* ds, double* dtable, int64_t heads, const Windows& w, int64_t stride, float scale) {
    for_each_offset_run(
        ds, dtable, heads, w, stride, [scale](float* s, double* total, int64_t n) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            total[i] += static_cast<double>(s[i]);
            s[i] *= scale;
          }
        });
  }
};

}  // namespace xrun::ops
