// The cells of a pooling window and the choice of the largest, for the loops of the processor and the kernels of GPUs.
#pragma once

#include <cstdint>

#include "ops/simd/lane_math.h"

namespace xrun::ops {

// The cells of a window that lie inside the image: rows top .. bottom - 1 and columns left .. right - 1.
struct Cells {
  int64_t top, bottom, left, right;

  // The cells of the window at (i, j). `w` has height, width, and k, stride and pad with the members h and w.
  template <class Window>
  XRUN_INLINE static Cells of(const Window& w, int64_t i, int64_t j) {
    const int64_t y = i * w.stride.h - w.pad.h;
    const int64_t x = j * w.stride.w - w.pad.w;
    return {y < 0 ? 0 : y, y + w.k.h < w.height ? y + w.k.h : w.height, x < 0 ? 0 : x,
            x + w.k.w < w.width ? x + w.k.w : w.width};
  }
  XRUN_INLINE float count() const { return static_cast<float>((bottom - top) * (right - left)); }
};

// Returns `taken` if x exceeds `best` or is the first NaN, else `kept`.
template <class L>
XRUN_INLINE L unless_beaten(L x, L best, L kept, L taken) {
  return choose<_CMP_UNORD_Q>(best, best, kept, choose<_CMP_LE_OQ>(x, best, kept, taken));
}

}  // namespace xrun::ops
