// The stages `mixup` and `cutmix` of a binding (graph/layouts/mixed_labels.h): they mix the finished row of a sample
// with the finished row of its partner.
//   mixup   lam x + (1 - lam) y, lam of Beta(alpha, alpha)
//   cutmix  x with a rectangle of y. Its sides are those of the picture times sqrt(1 - lam), it lies around a uniform
//           pixel and is cut off at the borders; the share of x is that of its pixels
// Here x is the row and y that of the partner. All draws belong to x: RandomStream(seed, epoch, sample, number of the
// first of these stages), so they do not depend on the partner. Numbers are computed in the order and precision of
// torchvision's formulas.
// Sources: Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018; Yun et al., "CutMix: Regularization
// Strategy to Train Strong Classifiers with Localizable Features", ICCV 2019; MixUp, CutMix and RandomChoice of
// torchvision.transforms.v2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/base/result.h"
#include "graph/settings/specs.h"
#include "graph/types/tensor_type.h"
#include "runtime/data/augment/augment.h"
#include "runtime/data/augment/rectangle.h"

namespace xrun::runtime {

// How one row is mixed.
struct Mix {
  enum Kind : uint8_t { kNone, kMixup, kCutmix } kind = kNone;
  double share = 1;  // share of the sample in its row; the partner has 1 - share
  Rectangle box{};   // kCutmix: the pixels of the partner
  // Whether the class of the partner is the label of the row: it has the larger share or, with `one_label`, was drawn.
  bool swaps = false;

  bool operator==(const Mix&) const = default;
};

// The rectangle that torchvision's CutMix takes for `lam` around the pixel (x, y) of a picture.
Rectangle cutmix_box(double lam, int64_t height, int64_t width, int64_t y, int64_t x);

class Mixing {
 public:
  // Returns the mixing of a binding that fills an input of type `target`; nullopt if no stage mixes. REQUIRES: the
  // checks of lang/lower/lower_mix.cpp.
  static std::optional<Mixing> of(const DataBinding& binding, const TensorType& target);

  // Draws how the row of a sample is mixed; outside training, it is not mixed.
  Mix draw(const DrawKey& key) const;
  // Mixes the row of a sample with that of its partner, both as Transform::run writes them. REQUIRES: target.row_bytes.
  void apply(const Mix& mix, const std::byte* partner, std::byte* row) const;
  // Whether a row has only one label.
  bool one_label() const { return one_label_; }

 private:
  struct Stage {
    Mix::Kind kind = Mix::kNone;
    double alpha = 1;
    double p = 1;
  };

  std::vector<Stage> stages_;  // one or two; with two, each row draws one of them
  uint64_t stream_ = 0;        // position of the first stage in its binding
  bool one_label_ = false;
  TensorType target_;
};

// The step of both stages: it does nothing, since a row is mixed once it and the row of its partner are finished.
Status run_mixing(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);

}  // namespace xrun::runtime
