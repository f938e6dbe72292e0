// The setting `train.precision`: the format to which operands are rounded, and the scale of the loss that f16 needs.
#pragma once

#include <cmath>
#include <cstdint>

namespace xrun {

enum class PrecisionMode { kF32, kMixedBf16, kMixedF16 };

// The largest scale of a loss, which leaves room for gradients of any size in f32.
inline constexpr double kLargestLossScale = 0x1p32;

// Whether a number may be the scale of a loss: a power of two from 1 to kLargestLossScale.
inline bool is_loss_scale(double scale) {
  int exponent = 0;
  return scale >= 1 && scale <= kLargestLossScale && std::frexp(scale, &exponent) == 0.5;
}

// The scale of the loss in `mixed(f16)`: fixed, or dynamic, which follows from the overflows of gradients
// (runtime/train/state/loss_scale.h).
struct LossScaleSpec {
  enum Kind { kNone, kFixed, kDynamic };
  Kind kind = kNone;
  double first = 65536;  // scale of the first step; with kFixed that of all steps

  bool is_on() const { return kind != kNone; }
};

}  // namespace xrun
