#include "runtime/cli/preview/display.h"

#include <algorithm>
#include <cmath>

#include "graph/base/check.h"
#include "ops/simd/simd.h"

namespace xrun::cli {
namespace {

constexpr double kWhite = 255;

// Element i of a row.
double value_at(const std::byte* row, DType dtype, size_t i) {
  if (dtype == DType::kBF16) {
    return static_cast<double>(ops::to_float(reinterpret_cast<const ops::Bf16*>(row)[i]));
  }
  if (dtype == DType::kF16) {
    return static_cast<double>(ops::to_float(reinterpret_cast<const ops::Half*>(row)[i]));
  }
  return dtype == DType::kF64 ? reinterpret_cast<const double*>(row)[i]
                              : static_cast<double>(reinterpret_cast<const float*>(row)[i]);
}

}  // namespace

Display::Display(const DataBinding& binding, const Field& field, const TensorType& target) : target_(target) {
  XRUN_CHECK(target.rank() == 4, "an input that is not a picture is shown");
  const auto channels = static_cast<size_t>(target.dims[1]);
  factor_.assign(channels, 1);
  offset_.assign(channels, 0);
  for (const CallSpec& stage : binding.stages) {
    for (size_t c = 0; c < channels; ++c) {
      if (stage.name == "scale") {
        factor_[c] *= stage.args.real("k");
        offset_[c] *= stage.args.real("k");
      } else if (stage.name == "normalize") {
        const auto mean = stage.args.reals("mean");
        const auto std = stage.args.reals("std");
        const double s = std[std.size() == 1 ? 0 : c];
        factor_[c] /= s;
        offset_[c] = (offset_[c] - mean[mean.size() == 1 ? 0 : c]) / s;
      }
    }
  }
  const bool are_pixels = field.encoded || field.type.dtype == DType::kU8;
  stretched_ = !are_pixels || std::ranges::any_of(factor_, [](double k) { return k == 0 || !std::isfinite(k); });
}

ShownPicture Display::show(const std::byte* row) const {
  const auto channels = static_cast<size_t>(target_.dims[1]);
  ShownPicture picture{.width = static_cast<int>(target_.dims[3]), .height = static_cast<int>(target_.dims[2])};
  const size_t count = static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height);
  double low = 0;
  double high = kWhite;
  if (stretched_) {
    low = high = value_at(row, target_.dtype, 0);
    for (size_t i = 0; i < count * channels; ++i) {
      const double value = value_at(row, target_.dtype, i);
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  picture.pixels.resize(count * 3);
  for (size_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      const size_t channel = channels == 3 ? c : 0;
      double pixel = value_at(row, target_.dtype, i * channels + channel);
      pixel = stretched_ ? (high > low ? (pixel - low) / (high - low) * kWhite : 0)
                         : (pixel - offset_[channel]) / factor_[channel];
      // A number that is not finite is shown black.
      picture.pixels[3 * i + c] =
          static_cast<uint8_t>(std::isfinite(pixel) ? std::nearbyint(std::clamp(pixel, 0.0, kWhite)) : 0);
    }
  }
  return picture;
}

}  // namespace xrun::cli
