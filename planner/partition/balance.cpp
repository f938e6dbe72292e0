#include "planner/partition/balance.h"

#include <bit>
#include <cstdint>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

std::vector<double> prefix_sums(const std::vector<double>& weights) {
  std::vector<double> sums(weights.size() + 1, 0);
  for (size_t i = 0; i < weights.size(); ++i) {
    sums[i + 1] = sums[i] + weights[i];
  }
  return sums;
}

// Fills the stages one after the other, each with as many layers as `limit` permits. Returns no cuts if `stages` stages
// are not enough. A stage leaves at least one layer for each later stage; since this only makes it smaller, the limit
// still holds.
Cuts fill(const std::vector<double>& sums, int stages, double limit) {
  const int n = static_cast<int>(sums.size()) - 1;
  Cuts cuts{0};
  while (cuts.back() < n) {
    if (static_cast<int>(cuts.size()) > stages) {
      return {};
    }
    const int begin = cuts.back();
    const int most = n - (stages - static_cast<int>(cuts.size()));  // each later stage needs a layer
    int end = begin;
    while (end < most && sums[static_cast<size_t>(end) + 1] - sums[static_cast<size_t>(begin)] <= limit) {
      ++end;
    }
    if (end == begin) {
      return {};
    }
    cuts.push_back(end);
  }
  return static_cast<int>(cuts.size()) == stages + 1 ? cuts : Cuts{};
}

}  // namespace

Cuts balance(const std::vector<double>& weights, int stages) {
  XRUN_CHECK(stages >= 1 && stages <= static_cast<int>(weights.size()), "between one stage and as many as layers");
  const std::vector<double> sums = prefix_sums(weights);
  // Non-negative floating-point numbers are ordered like their bits as integers, so the bisection runs over the bits.
  auto low = std::bit_cast<uint64_t>(0.0);
  auto high = std::bit_cast<uint64_t>(sums.back());
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    fill(sums, stages, std::bit_cast<double>(middle)).empty() ? low = middle + 1 : high = middle;
  }
  return fill(sums, stages, std::bit_cast<double>(high));
}

}  // namespace xrun::planner
