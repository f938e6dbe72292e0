// The features of templates (graph/settings/template_pairs.h), and the distances of their pairs:
//
//   1. The feature of a picture is the sum of its feature and that of its mirror image, whatever its length: networks
//      give blurred pictures short features, which then weigh less.
//   2. The feature of a medium, such as a video, is the mean over its pictures in the template.
//   3. The feature of a template is the mean over its media, divided by its length.
//
// A video of many frames therefore counts as much as one photograph. Source: Whitelam et al., "IARPA Janus
// Benchmark-B", CVPRW 2017 (templates); the steps are those of the published evaluation code of ArcFace, without the
// scores of a face detector, by which that code also multiplies the features of pictures.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "graph/settings/template_pairs.h"
#include "runtime/train/evaluation/verification.h"

namespace xrun::runtime {

// The memory that an evaluation takes for these features, [templates, dim], and for the distances of their pairs.
Bytes template_memory(const TemplatePairs& pairs, int64_t dim);

// Sums features in f64 and in the order of the samples. It keeps one feature, 8 · dim bytes, for each template.
// Threads: one makes all calls.
class TemplateFeatures {
 public:
  // `pairs` outlives the object.
  TemplateFeatures(const TemplatePairs& pairs, int64_t dim);

  // Adds the feature of the next sample, [dim], and that of its mirror image; null if there is no mirror image.
  // REQUIRES: the source has a next sample.
  void add(const float* feature, const float* mirrored);
  // Leaves the next sample out, since it is broken. A template without a sound sample has no feature.
  void add_broken() { ++next_; }

  // The pairs of templates with features, in the order of the source; 16 bytes each. REQUIRES: all samples were added.
  // Errors: kInterrupted soon after `stop` is set.
  Result<std::vector<ComparedPair>> compare(StopFlag stop);
  int64_t pairs() const { return static_cast<int64_t>(pairs_.pairs.size()); }

 private:
  double* feature_of(uint32_t of_template) { return features_.data() + of_template * static_cast<size_t>(dim_); }
  void end_medium();     // adds the mean of the current medium to its template
  void end_templates();  // divides each feature by its length

  const TemplatePairs& pairs_;
  int64_t dim_;
  size_t next_ = 0;                // number of the next sample
  TemplatePairs::Sample current_;  // template and medium of the sum below
  std::vector<double> medium_;     // sum over the sound pictures of the current medium
  int64_t pictures_ = 0;           // their number
  std::vector<double> features_;   // [templates, dim]
  std::vector<bool> has_feature_;  // [templates]
};

}  // namespace xrun::runtime
