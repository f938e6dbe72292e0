// The approximate graph of nearest classes, and its recall of the exact graph.
#include "ops/knn/knn_cells.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <vector>

#include "ops/knn/knn_recall.h"
#include "tests/ops/head/head_runner.h"
#include "tests/ops/knn/knn_oracle.h"

namespace xrun::ops {
namespace {

struct Cells {
  std::vector<int32_t> ids;
  int64_t compared = 0;
};

Cells build(const Matrix& m, int64_t neighbours, int64_t probes, Isa isa = detect_isa(), int workers = 2,
            uint64_t seed = kKnnSeed) {
  const KnnCells graph({.graph = {.classes = m.classes, .dim = m.dim, .neighbours = neighbours, .workers = workers},
                        .probes = probes,
                        .seed = seed},
                       isa);
  const Block scratch(graph.scratch_bytes());
  Cells out{std::vector<int32_t>(static_cast<size_t>(m.classes * neighbours + 1), -7)};
  ThreadWorkers threads(workers);
  out.compared = graph.build(m.values.data(), out.ids.data(), scratch.data(), threads).compared;
  EXPECT_EQ(out.ids.back(), -7);  // a guard after the lists
  out.ids.pop_back();
  return out;
}

double recall(const Matrix& m, int64_t neighbours, const std::vector<int32_t>& ids, Isa isa = detect_isa(),
              int workers = 2) {
  const KnnRecall recall({.classes = m.classes, .dim = m.dim, .neighbours = neighbours, .workers = workers}, 1, isa);
  const Block scratch(recall.scratch_bytes());
  ThreadWorkers threads(workers);
  return recall.measure(m.values.data(), ids.data(), scratch.data(), threads);
}

std::vector<int32_t> exact(const Matrix& m, int64_t neighbours) {
  const Oracle oracle(m);
  std::vector<int32_t> all;
  for (int64_t c = 0; c < m.classes; ++c) {
    std::ranges::copy(oracle.list(c, neighbours), std::back_inserter(all));
  }
  return all;
}

// Returns rows that lie near `groups` centres.
Matrix clusters(int64_t classes, int64_t dim, int64_t groups, float width) {
  Matrix m = random_rows(classes, dim);
  const Matrix centres = random_rows(groups, dim, 1);
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t d = 0; d < dim; ++d) {
      m.row(c)[d] = centres.row(c % groups)[d] + width * m.row(c)[d];
    }
  }
  return m;
}

// Expects that each list begins with its class, has no class twice, and is sorted by exact score, with entries of -1 at
// its end.
void expect_lists(const Matrix& m, int64_t neighbours, const std::vector<int32_t>& ids) {
  const Oracle oracle(m);
  for (int64_t c = 0; c < m.classes; ++c) {
    const std::vector<int32_t> list(ids.begin() + c * neighbours, ids.begin() + (c + 1) * neighbours);
    ASSERT_EQ(list[0], c);
    const auto end = std::find(list.begin(), list.end(), -1);
    ASSERT_TRUE(std::all_of(end, list.end(), [](int32_t id) { return id == -1; }));
    ASSERT_EQ(std::set<int32_t>(list.begin(), end).size(), static_cast<size_t>(end - list.begin())) << c;
    for (auto one = list.begin() + 1; one < end; ++one) {
      ASSERT_TRUE(*one >= 0 && *one < m.classes);
      if (one > list.begin() + 1) {
        const float before = oracle.score(c, *(one - 1));
        const float score = oracle.score(c, *one);
        ASSERT_TRUE(before > score || (before == score && *(one - 1) < *one)) << c;
      }
    }
  }
}

TEST(KnnCells, TheGraphOfAllCellsIsTheExactOne) {
  for (const auto& [classes, dim, neighbours] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                                    {1, 5, 4},
                                                                                    {2, 3, 5},
                                                                                    {33, 40, 3},
                                                                                    {65, 33, 70},
                                                                                    {700, 20, 32},
                                                                                    {1537, 64, 32},
                                                                                    {1100, 300, 90}}) {
    const Matrix m = random_rows(classes, dim);
    const auto wanted = exact(m, neighbours);
    for (const Isa isa : all_isas()) {
      for (const int workers : {1, 3}) {
        const Cells got = build(m, neighbours, 10'000, isa, workers);
        EXPECT_EQ(got.ids, wanted) << name_of(isa) << ", " << workers << " workers, " << classes << " x " << dim
                                   << ", K = " << neighbours << ", seed " << kKnnSeed;
        EXPECT_EQ(got.compared, classes * classes);
      }
    }
    EXPECT_EQ(recall(m, neighbours, wanted), 1);
  }
}

TEST(KnnCells, ListsDoNotDependOnWorkersOrInstructionSets) {
  const Matrix m = clusters(5000, 24, 60, 0.5F);
  const Cells one = build(m, 10, 3, Isa::kAvx2, 1);
  expect_lists(m, 10, one.ids);
  const double share = recall(m, 10, one.ids, Isa::kAvx2, 1);
  for (const Isa isa : all_isas()) {
    for (const int workers : {2, 5}) {
      const Cells other = build(m, 10, 3, isa, workers);
      EXPECT_EQ(other.ids, one.ids) << name_of(isa) << ", " << workers;
      EXPECT_EQ(other.compared, one.compared);
      EXPECT_EQ(recall(m, 10, one.ids, isa, workers), share);
    }
  }
  EXPECT_NE(build(m, 10, 3, detect_isa(), 2, kKnnSeed + 1).ids, one.ids) << "another seed, another sample";
}

TEST(KnnCells, FewCellsFindMostNeighboursOfClusters) {
  const Matrix m = clusters(20'000, 32, 300, 1.0F);
  double before = 0;
  int64_t compared = 0;
  for (const int64_t probes : {1, 4, 16}) {
    const Cells got = build(m, 20, probes);
    const double share = recall(m, 20, got.ids);
    EXPECT_GT(share, before) << probes << " probes, seed " << kKnnSeed;
    EXPECT_GT(got.compared, compared);
    EXPECT_LT(got.compared, 20'000 * 20'000 / 4);
    before = share;
    compared = got.compared;
  }
  EXPECT_GT(before, 0.8) << "seed " << kKnnSeed;
}

// If there are fewer classes than the recall samples, all of them are counted, so the share is known.
TEST(KnnCells, RecallIsTheShareOfExactNeighboursInTheLists) {
  const Matrix m = random_rows(200, 16);
  const std::vector<int32_t> all = exact(m, 9);
  std::vector<int32_t> some = all;
  for (size_t i = 0; i < some.size(); i += 9) {
    some[i + 1 + i / 9 % 8] = -1;                               // one of eight neighbours is missing
    some[i + 1 + (i / 9 + 3) % 8] = all[(i + 9) % all.size()];  // another class stands in its place
  }
  int64_t found = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto list = some.begin() + static_cast<std::ptrdiff_t>(i / 9 * 9);
    found += i % 9 != 0 && std::find(list + 1, list + 9, all[i]) != list + 9 ? 1 : 0;
  }
  EXPECT_LT(found, 200 * 8);
  EXPECT_EQ(recall(m, 9, all), 1);
  EXPECT_EQ(recall(m, 9, some), static_cast<double>(found) / (200 * 8));
  EXPECT_EQ(recall(m, 9, std::vector<int32_t>(200 * 9, -1)), 0);
  EXPECT_EQ(recall(random_rows(1, 4), 3, {0, -1, -1}), 1) << "nothing to find";
}

// All classes lie in one cell, and no class is compared with the whole cell.
TEST(KnnCells, EqualRowsNeedABoundedNumberOfComparisons) {
  Matrix m = random_rows(20'000, 8);
  for (const float scale : {1.0F, 0.0F}) {
    for (int64_t c = 0; c < m.classes; ++c) {
      for (int64_t d = 0; d < m.dim; ++d) {
        m.row(c)[d] = scale * m.row(0)[d];
      }
    }
    const Cells got = build(m, 5, 8);
    EXPECT_LE(got.compared, m.classes * 2048);
    expect_lists(m, 5, got.ids);
    EXPECT_EQ(std::ranges::count(got.ids, -1), 0);
  }
}

TEST(KnnCells, RowsThatAreNotFiniteCountAsZero) {
  Matrix m = random_rows(1000, 12);
  m.row(5)[3] = std::numeric_limits<float>::quiet_NaN();
  m.row(100)[0] = std::numeric_limits<float>::infinity();
  m.row(999)[11] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(build(m, 6, 1000).ids, exact(m, 6));
  expect_lists(m, 6, build(m, 6, 2).ids);
}

}  // namespace
}  // namespace xrun::ops
