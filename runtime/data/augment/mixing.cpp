#include "runtime/data/augment/mixing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/base/check.h"
#include "graph/layouts/mixed_labels.h"
#include "ops/simd/simd.h"
#include "runtime/data/augment/beta.h"

namespace xrun::runtime {
namespace {

// The draws of a row. These are elements, and lie in the blocks 0 and 1 of the stream:
constexpr uint64_t kChoice = 0;
constexpr uint64_t kChance = 1;
constexpr uint64_t kLabel = 4;
// These are blocks (RandomStream::below):
constexpr uint64_t kBoxX = 2;
constexpr uint64_t kBoxY = 3;
constexpr uint64_t kBetaBlock = 16;

// row = partner · (1 - share) + row · share, in the order and precision of torchvision.
template <typename T, typename Number>
void blend(const std::byte* partner, std::byte* row, int64_t elements, double share, auto load, auto store) {
  const T* from = reinterpret_cast<const T*>(partner);
  T* to = reinterpret_cast<T*>(row);
  const auto own = static_cast<Number>(share);
  const auto other = static_cast<Number>(1 - share);
  for (int64_t i = 0; i < elements; ++i) {
    to[i] = store(load(from[i]) * other + load(to[i]) * own);
  }
}

}  // namespace

Rectangle cutmix_box(double lam, int64_t height, int64_t width, int64_t y, int64_t x) {
  const double half = 0.5 * std::sqrt(1 - lam);
  const auto rows = static_cast<int64_t>(half * static_cast<double>(height));
  const auto columns = static_cast<int64_t>(half * static_cast<double>(width));
  const int64_t top = std::max<int64_t>(y - rows, 0);
  const int64_t left = std::max<int64_t>(x - columns, 0);
  return {top, left, std::min(y + rows, height) - top, std::min(x + columns, width) - left};
}

std::optional<Mixing> Mixing::of(const DataBinding& binding, const TensorType& target) {
  Mixing made;
  for (size_t i = 0; i < binding.stages.size(); ++i) {
    const CallSpec& call = binding.stages[i];
    if (!mixes_samples(call)) {
      continue;
    }
    made.stream_ = made.stages_.empty() ? i : made.stream_;
    made.stages_.push_back({.kind = call.name == "mixup" ? Mix::kMixup : Mix::kCutmix,
                            .alpha = call.args.real("alpha"),
                            .p = call.args.real("p", 1)});
    made.one_label_ = draws_label(call);
  }
  made.target_ = target;
  return made.stages_.empty() ? std::nullopt : std::optional(std::move(made));
}

Mix Mixing::draw(const DrawKey& key) const {
  if (!key.training) {
    return {};
  }
  const RandomStream stream(key.seed, key.epoch, key.sample, stream_);
  const size_t chosen = stages_.size() > 1 && stream.uniform(kChoice) >= 0.5F ? 1 : 0;
  const Stage& stage = stages_[chosen];
  if (!(static_cast<double>(stream.uniform(kChance)) < stage.p)) {
    return {};
  }
  Mix mix{.kind = stage.kind, .share = draw_beta(stage.alpha, stream, kBetaBlock)};
  if (stage.kind == Mix::kCutmix) {
    const int64_t height = target_.dims[2];
    const int64_t width = target_.dims[3];
    mix.box =
        cutmix_box(mix.share, height, width, static_cast<int64_t>(stream.below(kBoxY, static_cast<uint64_t>(height))),
                   static_cast<int64_t>(stream.below(kBoxX, static_cast<uint64_t>(width))));
    mix.share = 1 - static_cast<double>(mix.box.height * mix.box.width) / static_cast<double>(height * width);
  }
  mix.swaps = one_label_ ? static_cast<double>(stream.uniform(kLabel)) >= mix.share : mix.share < 0.5;
  return mix;
}

void Mixing::apply(const Mix& mix, const std::byte* partner, std::byte* row) const {
  if (mix.kind == Mix::kCutmix) {
    const int64_t pixel = target_.dims[1] * size_of(target_.dtype);  // rows are channels-last
    for (int64_t y = mix.box.top; y < mix.box.top + mix.box.height; ++y) {
      const int64_t at = (y * target_.dims[3] + mix.box.left) * pixel;
      std::memcpy(row + at, partner + at, static_cast<size_t>(mix.box.width * pixel));
    }
    return;
  }
  if (mix.kind == Mix::kNone) {
    return;
  }
  const int64_t elements = target_.row_elements();
  const auto same = [](auto x) { return x; };
  if (target_.dtype == DType::kF64) {
    blend<double, double>(partner, row, elements, mix.share, same, same);
  } else if (target_.dtype == DType::kBF16) {
    blend<ops::Bf16, float>(
        partner, row, elements, mix.share, [](ops::Bf16 x) { return ops::to_float(x); },
        [](float x) { return ops::to_bf16(x); });
  } else if (target_.dtype == DType::kF16) {
    blend<ops::Half, float>(
        partner, row, elements, mix.share, [](ops::Half x) { return ops::to_float(x); },
        [](float x) { return ops::to_f16(x); });
  } else {
    XRUN_CHECK(target_.dtype == DType::kF32, "mixed rows of another type");
    blend<float, float>(partner, row, elements, mix.share, same, same);
  }
}

Status run_mixing(const AugmentStep&, AugmentScratch&, const DrawKey&) { return {}; }

}  // namespace xrun::runtime
