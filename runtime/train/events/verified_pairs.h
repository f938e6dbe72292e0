// The result of `verification` on a source of pairs (runtime/train/evaluation/verification.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

// The share of the pairs of one class that are accepted (TAR) if at most a share `far` of the pairs of different
// classes is accepted (FAR).
struct TarAtFar {
  double far = 0;  // 0: no pair of different classes is accepted, so the FAR is below 1 / VerifiedPairs::different
  double tar = 0;  // mean over the folds
  double deviation = 0;  // population standard deviation over the folds
  double measured = 0;   // the FAR on the folds, mean; the threshold comes from the other folds
};

// The shares that a threshold accepts: means over the folds.
struct RocPoint {
  double threshold = 0;
  double far = 0;
  double tar = 0;
};

struct VerifiedPairs {
  std::string key;        // key of the metric
  int64_t pairs = 0;      // pairs that were measured
  int64_t different = 0;  // pairs of different classes among them
  int64_t left_out = 0;   // pairs with a broken sample
  int64_t folds = 0;
  double accuracy = 0;               // mean over the folds
  double deviation = 0;              // population standard deviation over the folds
  double threshold = 0;              // the squared distance below which most pairs of all folds are accepted correctly
  std::vector<TarAtFar> tar_at_far;  // in descending order of FAR; empty without pairs of both kinds
  std::vector<RocPoint> roc;         // in ascending order of the thresholds
  bool synthetic = false;
  Seconds seconds = 0;  // time to evaluate the source
};

}  // namespace xrun::runtime
