// Verification: how well the distance of two features tells whether their pictures show the same class. This is the
// protocol with which papers on face recognition report LFW, CFP-FP and AgeDB-30.
//
//   1. The feature of a picture is the sum of its feature and that of its mirror image, divided by its length.
//   2. A pair is accepted as one class if the squared distance of its features is below a threshold.
//   3. The pairs form consecutive folds, without shuffling. The threshold of a fold is the first of 0, 0.01 .. 3.99
//      that decides most pairs of the other folds correctly. The accuracy is the mean over the folds. A single fold has
//      the threshold that is best for itself.
//   4. TAR@FAR: the threshold of a fold has the wanted FAR on the other folds. It is interpolated linearly between 0,
//      0.001 .. 3.999; of several thresholds with the wanted FAR it is the largest.
//
// Sources: Huang et al., "Labeled Faces in the Wild", UMass TR 07-49, 2007 (folds); Deng et al., "ArcFace", CVPR 2019
// (mirror images). Steps 3 and 4 give the numbers of the published evaluation code of FaceNet and ArcFace.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/train/events/verified_pairs.h"

namespace xrun::runtime {

// Divides a feature by its length; a feature of zeros stays one of zeros.
void normalise(std::span<double> feature);
double squared_distance(std::span<const double> a, std::span<const double> b);

// Computes the squared distance of each pair from the features of the samples, in the order of the source. It keeps
// only distances and the feature of one sample. Threads: one makes all calls.
class PairDistances {
 public:
  explicit PairDistances(int64_t dim) : dim_(dim) {}

  // Adds the feature of the next sample, [dim], and that of its mirror image; null if there is no mirror image.
  void add(const float* feature, const float* mirrored);
  // Adds a broken sample: its pair has no distance.
  void add_broken();

  static constexpr double kLeftOut = -1;
  // The squared distance of each pair; kLeftOut for a pair with a broken sample.
  const std::vector<double>& squared() const { return squared_; }

 private:
  void finish_sample(bool broken);

  int64_t dim_;
  std::vector<double> first_;  // normalised feature of the first sample of a pair
  std::vector<double> now_;
  bool has_first_ = false;
  bool first_is_broken_ = false;
  std::vector<double> squared_;
};

struct ComparedPair {
  double squared = 0;  // squared distance of the normalised features, 0..4
  bool same = false;   // whether both samples are of one class
};

// Scores pairs with `folds` folds; key, left_out, synthetic and seconds stay at their defaults. TAR is given for FARs
// of 1e-1, 1e-2, ... as long as at least one pair of different classes may be accepted, and last for a FAR of 0. Folds
// without a pair of one class do not count for TAR, and folds without a pair of different classes not for FAR.
// REQUIRES: 1 <= folds <= number of pairs.
VerifiedPairs score_pairs(std::span<const ComparedPair> pairs, int64_t folds);

// The TAR of pairs at a FAR in 0..1. REQUIRES: as score_pairs.
TarAtFar tar_at_far(std::span<const ComparedPair> pairs, int64_t folds, double far);

}  // namespace xrun::runtime
