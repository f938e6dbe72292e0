#include "ops/knn/knn.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/knn/candidates.h"
#include "ops/knn/scan.h"
#include "tests/ops/head/head_runner.h"
#include "tests/ops/knn/knn_oracle.h"

namespace xrun::ops {
namespace {

constexpr uint64_t kSeed = kKnnSeed;

struct Built {
  std::vector<int32_t> ids;
  KnnReport report;
};

Built build(const Matrix& m, int64_t neighbours, Isa isa, int count) {
  const KnnGraph graph({.classes = m.classes, .dim = m.dim, .neighbours = neighbours, .workers = count}, isa);
  Block scratch(graph.scratch_bytes());
  // The extra element is a guard after the lists.
  Built out{std::vector<int32_t>(static_cast<size_t>(m.classes * neighbours + 1), -7), {}};
  ThreadWorkers workers(count);
  out.report = graph.build(m.values.data(), out.ids.data(), scratch.data(), workers);
  EXPECT_EQ(out.ids.back(), -7);
  out.ids.pop_back();
  return out;
}

// Expects that all instruction sets and numbers of workers give the oracle's lists. Returns the number of classes that
// bf16 searched again.
int64_t expect_exact(const Matrix& m, int64_t neighbours) {
  const Oracle oracle(m);
  std::vector<int32_t> wanted;
  for (int64_t c = 0; c < m.classes; ++c) {
    const auto list = oracle.list(c, neighbours);
    wanted.insert(wanted.end(), list.begin(), list.end());
  }
  int64_t again = 0;
  for (const Isa isa : all_isas()) {
    for (const int workers : {1, 2, 4}) {
      const Built built = build(m, neighbours, isa, workers);
      EXPECT_EQ(built.ids, wanted) << name_of(isa) << ", " << workers << " workers, " << m.classes << " x " << m.dim
                                   << ", K = " << neighbours << ", seed " << kSeed;
      again = built.report.searched_again;
    }
  }
  return again;
}

TEST(Knn, FindsTheNearestOfRandomRows) {
  for (const auto& [classes, dim, neighbours] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                                    {1, 5, 4},
                                                                                    {2, 3, 5},
                                                                                    {31, 7, 1},
                                                                                    {33, 40, 3},
                                                                                    {64, 32, 64},
                                                                                    {65, 33, 70},
                                                                                    {129, 300, 9},
                                                                                    {700, 20, 32},
                                                                                    {1100, 8, 200},
                                                                                    {1537, 64, 32}}) {
    expect_exact(random_rows(classes, dim), neighbours);
  }
}

// The lists of f32 equal those of f64, except for the order of scores that are equal in f32.
TEST(Knn, ListsAreThoseOfExactCosines) {
  const Matrix m = random_rows(900, 48);
  const auto cosine = [&](int64_t a, int64_t b) {
    double product = 0;
    double squares[2] = {};
    for (int64_t d = 0; d < m.dim; ++d) {
      product += static_cast<double>(m.row(a)[d]) * m.row(b)[d];
      squares[0] += static_cast<double>(m.row(a)[d]) * m.row(a)[d];
      squares[1] += static_cast<double>(m.row(b)[d]) * m.row(b)[d];
    }
    return product / std::sqrt(squares[0] * squares[1]);
  };
  const Built built = build(m, 10, detect_isa(), 2);
  for (int64_t c = 0; c < 900; ++c) {
    std::vector<double> all;
    for (int64_t i = 0; i < 900; ++i) {
      all.push_back(cosine(c, i));
    }
    std::ranges::sort(all, std::greater<>());
    for (int64_t k = 0; k < 10; ++k) {
      EXPECT_NEAR(cosine(c, built.ids[static_cast<size_t>(c * 10 + k)]), all[static_cast<size_t>(k)], 1e-6);
    }
  }
}

TEST(Knn, EqualScoresComeInTheOrderOfIds) {
  Matrix m = random_rows(600, 24);
  for (int64_t c = 0; c < 600; c += 3) {
    std::copy_n(m.row(c % 9), 24, m.row(c));  // three directions, each with 66 classes or more
  }
  expect_exact(m, 16);
  // First all rows are equal, then all are zero.
  for (int64_t c = 0; c < 600; ++c) {
    std::copy_n(m.row(1), 24, m.row(c));
  }
  expect_exact(m, 16);
  std::ranges::fill(m.values, 0.0F);
  expect_exact(m, 16);
}

TEST(Knn, RowsOfAnyNormHaveADirection) {
  Matrix m = random_rows(500, 30);
  const float lengths[] = {0, 1e-20F, 1e-12F, 1e-3F, 1, 1e20F, 3e37F};
  for (int64_t c = 0; c < 500; ++c) {
    for (int64_t d = 0; d < 30; ++d) {
      m.row(c)[d] *= lengths[c % 7];
    }
  }
  expect_exact(m, 12);
  // The rows are so short that their products in bf16 flush to zero.
  m = random_rows(300, 30);
  for (float& v : m.values) {
    v *= 3e-32F;
  }
  expect_exact(m, 12);
}

TEST(Knn, RowsThatAreNotFiniteCountAsZero) {
  Matrix m = random_rows(300, 30);
  m.row(5)[3] = std::numeric_limits<float>::quiet_NaN();
  m.row(100)[0] = std::numeric_limits<float>::infinity();
  m.row(299)[29] = -std::numeric_limits<float>::infinity();
  expect_exact(m, 12);
}

// The rows of a cluster round to nearly the same bf16, which gives more candidates than a list holds.
TEST(Knn, ClustersCloserThanTheRoundingOfBf16AreSearchedAgain) {
  for (const double width : {0.0, 1e-4, 3e-3}) {
    Matrix m = random_rows(1200, 40);
    const Matrix centres = random_rows(5, 40, 1);
    for (int64_t c = 0; c < 1000; ++c) {
      for (int64_t d = 0; d < 40; ++d) {
        m.row(c)[d] = centres.row(c % 5)[d] + static_cast<float>(width) * m.row(c)[d];
      }
    }
    const int64_t again = expect_exact(m, 20);
    if (has_native_bf16(detect_isa())) {
      EXPECT_GE(again, 1000) << width;
      EXPECT_LT(again, 1200) << width;
    } else {
      EXPECT_EQ(again, 0);
    }
  }
}

// Each row compares nearer than the one before, so every row is a candidate for a while.
TEST(Knn, AscendingScoresAreAllConsidered) {
  Matrix m = random_rows(1500, 16);
  for (int64_t c = 0; c < 1500; ++c) {
    for (int64_t d = 0; d < 16; ++d) {
      m.row(c)[d] = (d == 0 ? 1.0F : 0.0F) + static_cast<float>(1500 - c) * 2e-4F * m.row(c)[d];
    }
  }
  expect_exact(m, 32);
}

TEST(Knn, KeysOrderByDescendingScoreThenAscendingId) {
  const float scores[] = {1, 0.5F, 1e-30F, 0, -1e-30F, -0.5F, -1};
  for (size_t i = 0; i + 1 < std::size(scores); ++i) {
    EXPECT_LT(knn_key(scores[i], 7), knn_key(scores[i + 1], 0));
    EXPECT_LT(knn_key(scores[i], 6), knn_key(scores[i], 7));
    EXPECT_EQ(knn_score(knn_key(scores[i], 7)), scores[i]);
  }
  EXPECT_EQ(knn_key(-0.0F, 3), knn_key(0.0F, 3));
  EXPECT_EQ(knn_id(knn_key(0.25F, 2'147'483'647)), 2'147'483'647);
}

TEST(Knn, ACandidateListKeepsTheBestOrReportsAnOverflow) {
  for (const float slack : {0.0F, 0.01F, 10.0F}) {
    std::vector<uint64_t> keys(64);
    int32_t count = 0;
    float limit = 0;
    const KnnCandidates list{keys.data(), &count, &limit, 64, 20, slack};
    list.clear(0);
    std::vector<uint64_t> all;
    for (int32_t i = 0; i < 5000; ++i) {
      const float score = std::round(RandomStream(kSeed, 3).normal(static_cast<uint64_t>(i)) * 8) / 8;
      all.push_back(knn_key(score, i));
      if (score >= limit) {
        list.offer(0, score, i);
      }
    }
    std::ranges::sort(all);
    if (slack == 10) {
      EXPECT_EQ(count, KnnCandidates::kOverflow);
      EXPECT_EQ(limit, std::numeric_limits<float>::infinity());
      continue;
    }
    list.shrink(0);
    // Without slack, the list has the twenty best. With slack, it has all keys whose score is within the slack of the
    // twentieth.
    const float last = knn_score(all[19]);
    const auto end = slack == 0 ? all.begin() + 20
                                : std::ranges::find_if(all, [&](uint64_t k) { return knn_score(k) < last - slack; });
    keys.resize(static_cast<size_t>(count));
    std::ranges::sort(keys);
    EXPECT_EQ(keys, std::vector<uint64_t>(all.begin(), end)) << "slack " << slack << ", seed " << kSeed;
  }
}

TEST(Knn, ScansFindScoresThatEqualALimit) {
  constexpr int64_t kStride = 37;
  std::vector<float> scores(32 * kStride);
  std::vector<float> rows(32);
  std::vector<float> columns(32);
  RandomStream(kSeed, 4).fill_normal(0, scores);
  RandomStream(kSeed, 5).fill_normal(0, rows);
  RandomStream(kSeed, 6).fill_normal(0, columns);
  scores[3 * kStride + 5] = rows[3];
  scores[4 * kStride + 31] = columns[31];
  scores[9 * kStride + 9] = std::numeric_limits<float>::quiet_NaN();
  rows[8] = columns[8] = std::numeric_limits<float>::infinity();
  std::vector<int32_t> wanted;
  for (int32_t place = 0; place < 1024; ++place) {
    const auto row = static_cast<size_t>(place / 32);
    const auto column = static_cast<size_t>(place % 32);
    if (scores[row * kStride + column] >= std::min(rows[row], columns[column])) {
      wanted.push_back(place);
    }
  }
  for (const Isa isa : all_isas()) {
    std::vector<int32_t> hits(1024);
    const int64_t count = knn_scan(isa)(scores.data(), kStride, rows.data(), columns.data(), hits.data());
    hits.resize(static_cast<size_t>(count));
    EXPECT_EQ(hits, wanted) << name_of(isa);
  }
}

}  // namespace
}  // namespace xrun::ops
