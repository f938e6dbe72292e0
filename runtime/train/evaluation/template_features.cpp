#include "runtime/train/evaluation/template_features.h"

#include <algorithm>
#include <cmath>

#include "graph/base/check.h"

namespace xrun::runtime {

TemplateFeatures::TemplateFeatures(const TemplatePairs& pairs, int64_t dim)
    : pairs_(pairs),
      dim_(dim),
      medium_(static_cast<size_t>(dim)),
      features_(static_cast<size_t>(pairs.templates * dim)),
      has_feature_(static_cast<size_t>(pairs.templates)) {}

void TemplateFeatures::add(const float* feature, const float* mirrored) {
  XRUN_CHECK(next_ < pairs_.samples.size(), "each sample is added once");
  const TemplatePairs::Sample sample = pairs_.samples[next_++];
  if (sample.of_template != current_.of_template || sample.medium != current_.medium) {
    end_medium();
    current_ = sample;
  }
  for (size_t d = 0; d < medium_.size(); ++d) {
    medium_[d] += static_cast<double>(feature[d]) + (mirrored == nullptr ? 0 : static_cast<double>(mirrored[d]));
  }
  ++pictures_;
}

// The sum over media replaces their mean, since the length is divided out in the end.
void TemplateFeatures::end_medium() {
  if (pictures_ == 0) {
    return;
  }
  double* feature = feature_of(current_.of_template);
  for (size_t d = 0; d < medium_.size(); ++d) {
    feature[d] += medium_[d] / static_cast<double>(pictures_);
  }
  has_feature_[current_.of_template] = true;
  std::ranges::fill(medium_, 0.0);
  pictures_ = 0;
}

void TemplateFeatures::end_templates() {
  end_medium();
  for (int64_t one = 0; one < pairs_.templates; ++one) {
    normalise({feature_of(static_cast<uint32_t>(one)), static_cast<size_t>(dim_)});
  }
}

Bytes template_memory(const TemplatePairs& pairs, int64_t dim) {
  return pairs.templates * dim * static_cast<Bytes>(sizeof(double)) +
         std::ssize(pairs.pairs) * static_cast<Bytes>(sizeof(ComparedPair));
}

Result<std::vector<ComparedPair>> TemplateFeatures::compare(StopFlag stop) {
  constexpr size_t kPairsBetweenLooks = 1 << 16;
  XRUN_CHECK(next_ == pairs_.samples.size(), "all samples were added");
  end_templates();
  std::vector<ComparedPair> compared;
  compared.reserve(pairs_.pairs.size());
  for (size_t i = 0; i < pairs_.pairs.size(); ++i) {
    if (i % kPairsBetweenLooks == 0) {
      XRUN_TRY(check_stop(stop));
    }
    const TemplatePairs::Pair pair = pairs_.pairs[i];
    if (has_feature_[pair.first] && has_feature_[pair.second]) {
      const auto dim = static_cast<size_t>(dim_);
      compared.push_back(
          {squared_distance({feature_of(pair.first), dim}, {feature_of(pair.second), dim}), pair.same != 0});
    }
  }
  return compared;
}

}  // namespace xrun::runtime
