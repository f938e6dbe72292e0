// Each pair is sorted into the first threshold that accepts it. Sums over these counts give the pairs that a threshold
// accepts, of a fold or, by subtraction from the sums of all pairs, of the other folds.
#include "runtime/train/evaluation/verification.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/base/check.h"

namespace xrun::runtime {
namespace {

// The thresholds 0, step, 2 · step, ... below 4, the largest squared distance.
struct Thresholds {
  int64_t count;
  double step;
  double at(int64_t i) const { return static_cast<double>(i) * step; }
};
constexpr Thresholds kForAccuracy{400, 0.01};
constexpr Thresholds kForFar{4000, 0.001};

// Counts of pairs: [different, same].
using Counts = std::array<int64_t, 2>;

struct Fold {
  std::span<const ComparedPair> pairs;
  Counts all{};
  std::vector<Counts> accepted;  // index: threshold
};

// The first pairs.size() % count folds have one pair more than the others.
std::vector<std::span<const ComparedPair>> split(std::span<const ComparedPair> pairs, int64_t count) {
  XRUN_CHECK(count >= 1 && count <= std::ssize(pairs), "each fold has a pair");
  std::vector<std::span<const ComparedPair>> folds;
  size_t first = 0;
  for (int64_t fold = 0; fold < count; ++fold) {
    const auto size = static_cast<size_t>(std::ssize(pairs) / count + (fold < std::ssize(pairs) % count ? 1 : 0));
    folds.push_back(pairs.subspan(first, size));
    first += size;
  }
  return folds;
}

Fold count_accepted(std::span<const ComparedPair> pairs, const Thresholds& thresholds) {
  Fold fold{.pairs = pairs, .all = {}, .accepted = std::vector<Counts>(static_cast<size_t>(thresholds.count))};
  for (const ComparedPair& pair : pairs) {
    ++fold.all[pair.same ? 1 : 0];
    int64_t low = 0;  // the first threshold above the distance; `count` if there is no such threshold, or for NaN
    for (int64_t high = thresholds.count; low < high;) {
      const int64_t middle = low + (high - low) / 2;
      if (pair.squared < thresholds.at(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    if (low < thresholds.count) {
      ++fold.accepted[static_cast<size_t>(low)][pair.same ? 1 : 0];
    }
  }
  for (size_t i = 1; i < fold.accepted.size(); ++i) {
    for (const size_t kind : {0, 1}) {
      fold.accepted[i][kind] += fold.accepted[i - 1][kind];
    }
  }
  return fold;
}

std::vector<Fold> count_folds(std::span<const ComparedPair> pairs, int64_t count, const Thresholds& thresholds) {
  std::vector<Fold> folds;
  for (const auto& part : split(pairs, count)) {
    folds.push_back(count_accepted(part, thresholds));
  }
  return folds;
}

// The sums over all folds, without pairs.
Fold sum_of(const std::vector<Fold>& folds) {
  Fold sum{.pairs = {}, .all = {}, .accepted = std::vector<Counts>(folds[0].accepted.size())};
  for (const Fold& fold : folds) {
    for (const size_t kind : {0, 1}) {
      sum.all[kind] += fold.all[kind];
      for (size_t i = 0; i < sum.accepted.size(); ++i) {
        sum.accepted[i][kind] += fold.accepted[i][kind];
      }
    }
  }
  return sum;
}

// The sums over the folds that choose the threshold of a fold: all others, or the fold itself if it is the only one.
Fold others(Fold sum, const Fold& fold, size_t folds) {
  if (folds == 1) {
    return sum;
  }
  for (const size_t kind : {0, 1}) {
    sum.all[kind] -= fold.all[kind];
    for (size_t i = 0; i < sum.accepted.size(); ++i) {
      sum.accepted[i][kind] -= fold.accepted[i][kind];
    }
  }
  return sum;
}

// The number of pairs that a threshold decides correctly.
int64_t right(const Fold& fold, size_t threshold) {
  return fold.accepted[threshold][1] + fold.all[0] - fold.accepted[threshold][0];
}

// The first threshold that decides most pairs correctly.
size_t best_threshold(const Fold& fold) {
  size_t best = 0;
  for (size_t i = 1; i < fold.accepted.size(); ++i) {
    best = right(fold, i) > right(fold, best) ? i : best;
  }
  return best;
}

double share(int64_t part, int64_t of) { return of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of); }

struct MeanAndDeviation {
  double mean = 0;
  double deviation = 0;
};

MeanAndDeviation mean_of(const std::vector<double>& values) {
  MeanAndDeviation of;
  const auto count = static_cast<double>(std::max<size_t>(values.size(), 1));
  for (const double value : values) {
    of.mean += value;
  }
  of.mean /= count;
  double squares = 0;
  for (const double value : values) {
    squares += (value - of.mean) * (value - of.mean);
  }
  of.deviation = std::sqrt(squares / count);
  return of;
}

// The threshold with this FAR on `fold`, by linear interpolation; 0 if even the largest threshold has a smaller FAR.
double threshold_at(const Fold& fold, double far) {
  const auto far_at = [&](int64_t i) { return share(fold.accepted[static_cast<size_t>(i)][0], fold.all[0]); };
  int64_t last = kForFar.count - 1;  // the last threshold whose FAR is not above `far`
  if (far_at(last) < far) {
    return 0;
  }
  while (last >= 0 && far_at(last) > far) {
    --last;
  }
  if (last < 0 || last == kForFar.count - 1) {
    return kForFar.at(std::max<int64_t>(last, 0));
  }
  const double slope = (kForFar.at(last + 1) - kForFar.at(last)) / (far_at(last + 1) - far_at(last));
  return slope * (far - far_at(last)) + kForFar.at(last);
}

TarAtFar tar_of_folds(const std::vector<Fold>& folds, const Fold& sum, double far) {
  std::vector<double> tars;
  std::vector<double> fars;
  for (const Fold& fold : folds) {
    const double threshold = threshold_at(others(sum, fold, folds.size()), far);
    Counts accepted{};
    for (const ComparedPair& pair : fold.pairs) {
      accepted[pair.same ? 1 : 0] += pair.squared < threshold ? 1 : 0;
    }
    if (fold.all[1] > 0) {
      tars.push_back(share(accepted[1], fold.all[1]));
    }
    if (fold.all[0] > 0) {
      fars.push_back(share(accepted[0], fold.all[0]));
    }
  }
  const MeanAndDeviation tar = mean_of(tars);
  return {.far = far, .tar = tar.mean, .deviation = tar.deviation, .measured = mean_of(fars).mean};
}

std::vector<RocPoint> roc_of(const std::vector<Fold>& folds) {
  std::vector<RocPoint> points;
  for (int64_t i = 0; i < kForAccuracy.count; ++i) {
    RocPoint point{.threshold = kForAccuracy.at(i)};
    for (const Fold& fold : folds) {
      const Counts& accepted = fold.accepted[static_cast<size_t>(i)];
      point.far += share(accepted[0], fold.all[0]);
      point.tar += share(accepted[1], fold.all[1]);
    }
    point.far /= static_cast<double>(folds.size());
    point.tar /= static_cast<double>(folds.size());
    points.push_back(point);
  }
  return points;
}

}  // namespace

void normalise(std::span<double> feature) {
  double squares = 0;
  for (const double value : feature) {
    squares += value * value;
  }
  const double length = squares == 0 ? 1 : std::sqrt(squares);
  for (double& value : feature) {
    value /= length;
  }
}

double squared_distance(std::span<const double> a, std::span<const double> b) {
  double squared = 0;
  for (size_t d = 0; d < a.size(); ++d) {
    squared += (a[d] - b[d]) * (a[d] - b[d]);
  }
  return squared;
}

void PairDistances::add(const float* feature, const float* mirrored) {
  now_.resize(static_cast<size_t>(dim_));
  for (size_t d = 0; d < now_.size(); ++d) {
    now_[d] = static_cast<double>(feature[d]) + (mirrored == nullptr ? 0 : static_cast<double>(mirrored[d]));
  }
  normalise(now_);
  finish_sample(false);
}

void PairDistances::add_broken() { finish_sample(true); }

void PairDistances::finish_sample(bool broken) {
  if (!has_first_) {
    has_first_ = true;
    first_is_broken_ = broken;
    first_.swap(now_);
    return;
  }
  has_first_ = false;
  if (broken || first_is_broken_) {
    squared_.push_back(kLeftOut);
    return;
  }
  squared_.push_back(squared_distance(first_, now_));
}

TarAtFar tar_at_far(std::span<const ComparedPair> pairs, int64_t folds, double far) {
  const std::vector<Fold> counted = count_folds(pairs, folds, kForFar);
  return tar_of_folds(counted, sum_of(counted), far);
}

VerifiedPairs score_pairs(std::span<const ComparedPair> pairs, int64_t folds) {
  const std::vector<Fold> counted = count_folds(pairs, folds, kForAccuracy);
  const Fold sum = sum_of(counted);
  VerifiedPairs scored{.pairs = std::ssize(pairs), .different = sum.all[0], .folds = folds, .roc = roc_of(counted)};
  std::vector<double> accuracies;
  int64_t all_right = 0;
  for (const Fold& fold : counted) {
    const int64_t fold_right = right(fold, best_threshold(others(sum, fold, counted.size())));
    accuracies.push_back(share(fold_right, std::ssize(fold.pairs)));
    all_right += fold_right;
  }
  const MeanAndDeviation accuracy = mean_of(accuracies);
  // With folds of one size the mean is the share of all pairs. A mean of rounded shares may be less than that share,
  // and `stop_when = lfw >= 99.7%` would then miss exactly 99.7 %.
  scored.accuracy = scored.pairs % folds == 0 ? share(all_right, scored.pairs) : accuracy.mean;
  scored.deviation = accuracy.deviation;
  scored.threshold = kForAccuracy.at(static_cast<int64_t>(best_threshold(sum)));
  if (sum.all[0] == 0 || sum.all[1] == 0) {
    return scored;
  }
  const std::vector<Fold> for_far = count_folds(pairs, folds, kForFar);
  const Fold sum_for_far = sum_of(for_far);
  // Powers of ten as the literals of published tables; kept as integers, so that 1e-3 of 1 000 pairs is one pair.
  for (int64_t inverse = 10; inverse <= sum.all[0]; inverse *= 10) {
    scored.tar_at_far.push_back(tar_of_folds(for_far, sum_for_far, 1 / static_cast<double>(inverse)));
  }
  scored.tar_at_far.push_back(tar_of_folds(for_far, sum_for_far, 0));
  return scored;
}

}  // namespace xrun::runtime
