// Graphs that are built in shares have the lists, cells and recall of a single build.
#include "ops/knn/knn_shares.h"

#include <algorithm>
#include <barrier>
#include <gtest/gtest.h>
#include <limits>
#include <thread>
#include <vector>

#include "ops/knn/knn.h"
#include "ops/knn/knn_cells.h"
#include "ops/knn/knn_recall.h"
#include "tests/ops/head/head_runner.h"
#include "tests/ops/knn/knn_oracle.h"

namespace xrun::ops {
namespace {

// The memory and the barrier by which the threads of a build copy results from each other. Each share has a thread.
struct Meeting {
  explicit Meeting(int n) : arrays(static_cast<size_t>(n)), barrier(n) {}
  std::vector<std::span<std::byte>> arrays;  // array that each share gathers
  std::barrier<> barrier;
};

class ThreadShares final : public KnnShares {
 public:
  ThreadShares(Meeting& meeting, int index) : meeting_(meeting), index_(index) {}
  int count() const override { return static_cast<int>(meeting_.arrays.size()); }
  int index() const override { return index_; }
  Status gather(std::span<std::byte> array, Bytes block) override {
    meeting_.arrays[static_cast<size_t>(index_)] = array;
    meeting_.barrier.arrive_and_wait();
    const auto size = static_cast<int64_t>(array.size());
    for (int share = 0; share < count(); ++share) {
      const BlockRange blocks = of((size + block - 1) / block, share);
      const int64_t begin = blocks.begin * block;
      const int64_t end = std::min(blocks.end * block, size);
      if (share != index_ && begin < end) {
        const auto from = meeting_.arrays[static_cast<size_t>(share)];
        std::copy(from.begin() + begin, from.begin() + end, array.begin() + begin);
      }
    }
    meeting_.barrier.arrive_and_wait();
    return {};
  }

 private:
  Meeting& meeting_;
  int index_;
};

struct Built {
  std::vector<int32_t> ids;
  double recall = 1;
  int64_t work = 0;  // number of classes searched again, or of pairs compared
};

// `probes` 0 means the exact graph.
KnnCellsShape shape_of(const Matrix& m, int64_t neighbours, int64_t probes) {
  return {.graph = {.classes = m.classes, .dim = m.dim, .neighbours = neighbours, .workers = 2},
          .probes = std::max<int64_t>(probes, 1),
          .seed = kKnnSeed};
}

Built build(const Matrix& m, const KnnCellsShape& shape, bool exact, Isa isa, KnnShares& shares) {
  Built built{std::vector<int32_t>(static_cast<size_t>(m.classes * shape.graph.neighbours), -7)};
  ThreadWorkers workers(shape.graph.workers);
  const float* rows = m.values.data();
  if (exact) {
    const KnnGraph graph(shape.graph, isa);
    const Block scratch(graph.scratch_bytes());
    built.work = graph.build(rows, built.ids.data(), scratch.data(), workers, shares).value().searched_again;
    return built;
  }
  const KnnCells graph(shape, isa);
  const Block scratch(graph.scratch_bytes());
  built.work = graph.build(rows, built.ids.data(), scratch.data(), workers, shares).value().compared;
  const KnnRecall recall(shape.graph, 1, isa);
  const Block measured(recall.scratch_bytes());
  built.recall = recall.measure(rows, built.ids.data(), measured.data(), workers, shares).value();
  return built;
}

std::vector<Built> build_in_shares(const Matrix& m, const KnnCellsShape& shape, bool exact, Isa isa, int count) {
  Meeting meeting(count);
  std::vector<Built> all(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      ThreadShares shares(meeting, i);
      all[static_cast<size_t>(i)] = build(m, shape, exact, isa, shares);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return all;
}

// Expects that shares give the lists of a single build, and returns the result of that build.
Built expect_the_lists_of_one(const Matrix& m, int64_t neighbours, int64_t probes) {
  const KnnCellsShape shape = shape_of(m, neighbours, probes);
  const bool exact = probes == 0;
  Built one;
  for (const Isa isa : all_isas()) {
    KnnShares whole;
    one = build(m, shape, exact, isa, whole);
    for (const int count : {2, 3, 5}) {
      int64_t work = 0;
      for (const Built& built : build_in_shares(m, shape, exact, isa, count)) {
        EXPECT_EQ(built.ids, one.ids) << name_of(isa) << ", " << count << " shares, " << m.classes << " x " << m.dim
                                      << ", K = " << neighbours << ", " << probes << " probes, seed " << kKnnSeed;
        EXPECT_EQ(built.recall, one.recall);
        work += built.work;
      }
      if (exact) {
        EXPECT_GE(work, one.work == 0 ? 0 : 1);
      } else {
        EXPECT_EQ(work, one.work) << "each block is compared by one share";
      }
    }
  }
  return one;
}

Matrix rows_of(int64_t classes, int64_t dim) {
  Matrix m = random_rows(classes, dim);
  if (classes > 40) {
    m.row(7)[0] = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(m.row(31), dim, 0.0F);
    std::copy_n(m.row(3), dim, m.row(classes - 1));
  }
  return m;
}

TEST(KnnShares, AreConsecutiveBlocks) {
  Meeting meeting(3);
  const ThreadShares middle(meeting, 1);
  EXPECT_EQ(middle.own(10), (BlockRange{3, 6}));
  EXPECT_EQ(middle.own(2), (BlockRange{0, 1}));
  EXPECT_EQ(middle.own(1), (BlockRange{0, 0}));
  EXPECT_EQ(middle.of(10, 2), (BlockRange{6, 10}));
  EXPECT_EQ(KnnShares().own(10), (BlockRange{0, 10}));
}

TEST(KnnShares, GiveTheExactListsOfOneBuild) {
  for (const auto& [classes, dim, neighbours] : std::vector<std::array<int64_t, 3>>{
           {1, 3, 2}, {5, 8, 4}, {63, 5, 70}, {300, 24, 1}, {1100, 40, 9}, {3000, 16, 33}}) {
    expect_the_lists_of_one(rows_of(classes, dim), neighbours, 0);
  }
}

// The differences between these rows vanish in bf16.
TEST(KnnShares, SearchTheirOwnClassesAgain) {
  Matrix m = random_rows(900, 32);
  for (int64_t c = 0; c < m.classes; ++c) {
    for (int64_t d = 0; d < m.dim; ++d) {
      m.row(c)[d] = m.row(0)[d] + 1e-4F * m.row(c)[d];
    }
  }
  const Built one = expect_the_lists_of_one(m, 8, 0);
  EXPECT_EQ(one.work > 0, has_native_bf16(all_isas().back()));
}

TEST(KnnShares, GiveTheCellsAndTheRecallOfOneBuild) {
  for (const auto& [classes, dim, neighbours, probes] : std::vector<std::array<int64_t, 4>>{
           {1, 3, 2, 4}, {5, 8, 4, 1}, {300, 24, 3, 2}, {3000, 16, 9, 1}, {9000, 12, 17, 4}}) {
    const Built one = expect_the_lists_of_one(rows_of(classes, dim), neighbours, probes);
    EXPECT_TRUE(classes < 1000 || one.recall < 1) << "the test has power";
  }
}

// All classes lie in one cell, and each class is compared with some of the others.
TEST(KnnShares, CompareTheSameClassesOfALargeCell) {
  Matrix m = random_rows(12'000, 8);
  for (int64_t c = 1; c < 11'000; ++c) {
    std::copy_n(m.row(0), m.dim, m.row(c));
  }
  expect_the_lists_of_one(m, 8, 1);
}

class FailingShares final : public KnnShares {
 public:
  int count() const override { return 2; }
  Status gather(std::span<std::byte>, Bytes) override {
    return Error{ErrorKind::kWorld, "", "the other share is gone"};
  }
};

TEST(KnnShares, AGatherThatFailsEndsTheBuild) {
  const Matrix m = random_rows(3000, 8);
  const KnnCellsShape shape = shape_of(m, 4, 2);
  std::vector<int32_t> ids(static_cast<size_t>(m.classes * 4));
  ThreadWorkers workers(2);
  const KnnGraph exact(shape.graph, detect_isa());
  const Block scratch(exact.scratch_bytes());
  FailingShares failing;
  const auto built = exact.build(m.values.data(), ids.data(), scratch.data(), workers, failing);
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().message, "the other share is gone");
  const KnnRecall recall(shape.graph, 1, detect_isa());
  const Block measured(recall.scratch_bytes());
  EXPECT_FALSE(recall.measure(m.values.data(), ids.data(), measured.data(), workers, failing).ok());
  const KnnCells cells(shape, detect_isa());
  const Block memory(cells.scratch_bytes());
  EXPECT_FALSE(cells.build(m.values.data(), ids.data(), memory.data(), workers, failing).ok());
}

}  // namespace
}  // namespace xrun::ops
