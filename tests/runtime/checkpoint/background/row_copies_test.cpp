// Rows that change while their file is being read are read as they were when the save began.
#include "runtime/checkpoint/background/row_copies.h"

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <latch>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/checkpoint/checkpoint_model.h"

namespace xrun::runtime {
namespace {

constexpr int64_t kClasses = 3000;
constexpr int64_t kBegin = 100;  // first row of the file, which is read in several parts
constexpr int64_t kEnd = 2900;
constexpr int64_t kWidth = 8;

class RowCopiesTest : public ::testing::Test {
 protected:
  RowCopiesTest() {
    model.fill(1);
    file = {.name = "head", .tensors = {}, .by_rows = true, .row_begin = kBegin, .row_end = kEnd};
    for (const StateTensor& tensor : model.state().tensors()) {
      if (tensor.head == "id") {
        file.tensors.push_back(&tensor);
        begin_.push_back(rows_of(tensor));
      }
    }
  }

  // Returns the values of the file's rows in the state.
  std::vector<float> rows_of(const StateTensor& tensor) {
    std::vector<float> values(static_cast<size_t>((kEnd - kBegin) * kWidth));
    model.state().read_rows(tensor, kBegin, kEnd, reinterpret_cast<std::byte*>(values.data()));
    return values;
  }
  // Changes a row as a step does: its weights and their optimizer states.
  void change(int32_t row) {
    const std::vector<float> values(kWidth, -1000.0F - static_cast<float>(row));
    for (const StateTensor* tensor : file.tensors) {
      model.state().write_rows(*tensor, row, row + 1, reinterpret_cast<const std::byte*>(values.data()));
    }
  }
  void expect_begin(RowCopies& copies) {
    for (size_t t = 0; t < file.tensors.size(); ++t) {
      std::vector<float> values(begin_[t].size());
      copies.read(*file.tensors[t], kBegin, kEnd, reinterpret_cast<std::byte*>(values.data()));
      EXPECT_TRUE(values == begin_[t]) << file.tensors[t]->name;
    }
  }

  testing::CheckpointModel model{2, kClasses};
  StateFile file;
  std::vector<std::vector<float>> begin_;  // values of each tensor when the save began
};

TEST_F(RowCopiesTest, KeptRowsAreReadAsTheyWereWhenTheSaveBegan) {
  SaveMemory memory(1, 8 * SaveMemory::kPage);
  RowCopies copies(model.state(), file, memory);
  ASSERT_EQ(file.tensors.size(), 3U) << "weights and two states of adamw";
  ASSERT_TRUE(copies.fits());
  // Rows of other files are not copied. Each row is copied only once, with its value at the begin of the save.
  ASSERT_TRUE(copies.keep(std::vector<int32_t>{0, kBegin - 1, kBegin, 1234, kEnd - 1, kEnd, kClasses - 1}));
  for (const int32_t row : {0, 100, 1234, 2899, 2999}) {
    change(row);
  }
  ASSERT_TRUE(copies.keep(std::vector<int32_t>{1234, 1235}));
  change(1235);
  expect_begin(copies);
  ASSERT_TRUE(copies.keep(std::vector<int32_t>{1236})) << "after the file was read once";
  change(1236);
  expect_begin(copies);
}

TEST_F(RowCopiesTest, NoRowIsKeptWithoutMemory) {
  SaveMemory memory(1, SaveMemory::kPage);
  RowCopies copies(model.state(), file, memory);
  std::vector<int32_t> rows(2000);
  std::iota(rows.begin(), rows.end(), 200);
  EXPECT_FALSE(copies.keep(rows)) << "a page has room for some hundreds of them";
  EXPECT_EQ(memory.take_page(), nullptr);
  copies.end();
  EXPECT_NE(memory.take_page(), nullptr) << "the page was given back";
  EXPECT_TRUE(copies.keep(rows)) << "nothing has to be kept after the end";
}

TEST_F(RowCopiesTest, RowsThatChangeDuringTheReadHaveTheirEarlierValues) {
  constexpr uint64_t kSeed = 20261127;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    SaveMemory memory(1, 16 * SaveMemory::kPage);
    RowCopies copies(model.state(), file, memory);
    std::vector<int32_t> rows(kClasses);
    std::iota(rows.begin(), rows.end(), 0);
    std::ranges::shuffle(rows, random);
    bool all_kept = true;
    std::atomic<bool> trained = false;
    std::latch begin(2);
    std::thread trains([&] {
      begin.arrive_and_wait();
      for (const int32_t row : rows) {
        all_kept = all_kept && copies.keep(std::span(&row, 1));
        change(row);
      }
      trained = true;
    });
    begin.arrive_and_wait();
    do {
      expect_begin(copies);
    } while (!trained);
    trains.join();
    EXPECT_TRUE(all_kept);
    model.fill(1);
  }
}

}  // namespace
}  // namespace xrun::runtime
