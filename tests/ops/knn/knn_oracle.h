// An oracle of nearest-class lists: it computes them from rows by the definitions of ops/knn/knn.h, one operation after
// another.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/base/random.h"
#include "tests/support/isas.h"

namespace xrun::ops {

inline constexpr uint64_t kKnnSeed = 20'261;

struct Matrix {
  int64_t classes = 0;
  int64_t dim = 0;
  std::vector<float> values;

  float* row(int64_t c) { return values.data() + c * dim; }
  const float* row(int64_t c) const { return values.data() + c * dim; }
};

inline Matrix random_rows(int64_t classes, int64_t dim, uint64_t stream = 0) {
  Matrix m{classes, dim, std::vector<float>(static_cast<size_t>(classes * dim))};
  RandomStream(kKnnSeed, stream).fill_normal(0, m.values);
  return m;
}

// Directions and scores by the definitions of ops/knn/knn.h, one operation after another.
class Oracle {
 public:
  explicit Oracle(const Matrix& m) : matrix_(m), directions_(m.values) {
    for (int64_t c = 0; c < m.classes; ++c) {
      double squares = 0;
      for (int64_t d = 0; d < m.dim; ++d) {
        squares += static_cast<double>(m.row(c)[d]) * m.row(c)[d];
      }
      const auto inverse = static_cast<float>(1 / std::max(std::sqrt(squares), 1e-12));
      for (int64_t d = 0; d < m.dim; ++d) {
        float& n = directions_[static_cast<size_t>(c * m.dim + d)];
        n = std::isfinite(squares) ? n * inverse : 0.0F;
      }
    }
  }

  float score(int64_t a, int64_t b) const {
    float sum = 0;
    for (int64_t d = 0; d < matrix_.dim; ++d) {
      sum = std::fma(directions_[static_cast<size_t>(a * matrix_.dim + d)],
                     directions_[static_cast<size_t>(b * matrix_.dim + d)], sum);
    }
    return sum;
  }

  std::vector<int32_t> list(int64_t c, int64_t neighbours) const {
    std::vector<std::pair<float, int32_t>> others;
    for (int64_t i = 0; i < matrix_.classes; ++i) {
      if (i != c) {
        others.emplace_back(-score(c, i), static_cast<int32_t>(i));
      }
    }
    std::sort(others.begin(), others.end());
    std::vector<int32_t> ids = {static_cast<int32_t>(c)};
    for (size_t i = 0; static_cast<int64_t>(ids.size()) < neighbours; ++i) {
      ids.push_back(i < others.size() ? others[i].second : -1);
    }
    return ids;
  }

 private:
  const Matrix& matrix_;
  std::vector<float> directions_;
};

}  // namespace xrun::ops
