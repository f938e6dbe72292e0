#include "planner/partition/balance.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  const int n = static_cast<int>(weights.size());
  XRUN_CHECK(stages >= 1 && stages <= n, "between one stage and as many as layers");
  const std::vector<double> sums = prefix_sums(weights);
  std::vector<std::vector<double>> best(static_cast<size_t>(stages) + 1,
                                        std::vector<double>(static_cast<size_t>(n) + 1, kInfinity));
  std::vector<std::vector<int>> from(best.size(), std::vector<int>(static_cast<size_t>(n) + 1, -1));
  best[0][0] = 0;
  for (size_t s = 1; s < best.size(); ++s) {
    for (size_t j = s; j <= static_cast<size_t>(n); ++j) {
      for (size_t i = s - 1; i < j; ++i) {
        const double largest = std::max(best[s - 1][i], sums[j] - sums[i]);
        if (largest < best[s][j]) {
          best[s][j] = largest;
          from[s][j] = static_cast<int>(i);
        }
      }
    }
  }
  Cuts cuts(static_cast<size_t>(stages) + 1, n);
  for (int s = stages; s > 0; --s) {
    cuts[static_cast<size_t>(s) - 1] = from[static_cast<size_t>(s)][static_cast<size_t>(cuts[static_cast<size_t>(s)])];
  }
  return cuts;
}

Cuts balance_by_bisection(const std::vector<double>& weights, int stages) {
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

double bottleneck(const std::vector<double>& weights, const Cuts& cuts) {
  const std::vector<double> sums = prefix_sums(weights);
  double largest = 0;
  for (size_t s = 0; s + 1 < cuts.size(); ++s) {
    largest = std::max(largest, sums[static_cast<size_t>(cuts[s + 1])] - sums[static_cast<size_t>(cuts[s])]);
  }
  return largest;
}

}  // namespace xrun::planner
