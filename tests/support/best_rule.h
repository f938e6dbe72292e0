// The Bayes rule for classes that are normally distributed around known means. It evaluates every class. No classifier
// has a higher accuracy on such samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace xrun::testing {

// Samples of class c are means[c] plus independent normal noise. In the share `conflicts` of the samples the label is
// another class of the same group, each with the same probability; a group is `group` classes with consecutive numbers.
struct NormalClasses {
  int64_t dim = 0;
  std::span<const float> means;    // [classes, dim]
  std::span<const double> shares;  // [classes], the probability of each class; above 0
  double deviation = 1;            // deviation of the noise in each dimension; above 0
  int64_t group = 1;
  double conflicts = 0;
};

// The most probable label of each sample; samples is [n, dim]. Uses all cores: 2 n classes dim operations.
std::vector<int64_t> most_probable_labels(const NormalClasses& classes, std::span<const float> samples);

}  // namespace xrun::testing
