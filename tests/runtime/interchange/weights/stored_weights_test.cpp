// Tensors that lie anywhere in their data: views against an indexed loop, parts of reads, and sources of bytes.
#include "runtime/interchange/weights/stored_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const RandomFile> file_of(const std::vector<float>& numbers) {
  return std::make_shared<const RandomFile>(RandomFile::in_memory(std::as_bytes(std::span(numbers)), "input"));
}

std::unique_ptr<WeightFile> weights_of(StoredTensor tensor) {
  WeightContents contents{.path = "input"};
  EXPECT_TRUE(contents.add("w", std::move(tensor)).ok());
  auto made = make_stored_weights(std::move(contents), "test", nullptr);
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

// The element `index` of the order of C, by its coordinates.
float element(const StoredTensor& view, const std::vector<float>& numbers, int64_t index) {
  int64_t offset = view.begin / static_cast<Bytes>(sizeof(float));
  for (size_t i = view.dims.size(); i-- > 0; index /= view.dims[i]) {
    offset += index % view.dims[i] * view.strides[i];
  }
  return numbers[static_cast<size_t>(offset)];
}

TEST(StoredWeights, AnyViewGivesItsElementsInTheOrderOfC) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](int64_t limit) { return std::uniform_int_distribution<int64_t>(0, limit - 1)(random); };
  std::vector<float> numbers(4000);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const Source source = bytes_of_file(file_of(numbers), 0, 4 * std::ssize(numbers));
  for (int round = 0; round < 300; ++round) {
    StoredTensor view{.dtype = "F32", .source = source, .begin = 4 * below(100)};
    const int64_t rank = below(4);
    for (int64_t i = 0; i < rank; ++i) {
      view.dims.push_back(1 + below(7));
      view.strides.push_back(below(4) == 0 ? 1 : below(100));
    }
    const auto file = weights_of(view);
    const int64_t all = file->tensors()[0].elements();
    const int64_t first = below(all);
    std::vector<float> values(static_cast<size_t>(1 + below(all - first)));
    ASSERT_TRUE(file->read(0, first, std::ssize(values), values.data()).ok());
    for (int64_t i = 0; i < std::ssize(values); ++i) {
      ASSERT_EQ(values[static_cast<size_t>(i)], element(view, numbers, first + i)) << round << " " << i;
    }
  }
}

TEST(StoredWeights, LargeTensorsAreReadInPartsAlsoTransposed) {
  constexpr int64_t kRows = 1100;
  constexpr int64_t kColumns = 1000;
  std::vector<float> numbers(kRows * kColumns);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const Source source = bytes_of_file(file_of(numbers), 0, 4 * std::ssize(numbers));
  std::vector<float> values(numbers.size());
  const auto file = weights_of({.dtype = "F32", .source = source, .dims = {kRows, kColumns}});
  ASSERT_TRUE(file->read(0, 0, std::ssize(values), values.data()).ok());
  EXPECT_EQ(values, numbers);
  const auto turned =
      weights_of({.dtype = "F32", .source = source, .dims = {kColumns, kRows}, .strides = {1, kColumns}});
  ASSERT_TRUE(turned->read(0, 0, std::ssize(values), values.data()).ok());
  for (int64_t row = 0; row < kColumns; ++row) {
    for (int64_t column = 0; column < kRows; ++column) {
      ASSERT_EQ(values[static_cast<size_t>(row * kRows + column)],
                numbers[static_cast<size_t>(column * kColumns + row)]);
    }
  }
}

TEST(StoredWeights, TheElementsOfADistantViewAreReadOneByOne) {
  // Two elements that are 80 MiB apart, in a file of which only these bytes are on the disk.
  constexpr int64_t kFar = 20 << 20;
  std::FILE* const made = std::tmpfile();
  for (const int64_t at : {int64_t{0}, kFar}) {
    const float number = at == 0 ? 5.0f : 6.0f;
    std::fseek(made, 4 * at, SEEK_SET);
    ASSERT_EQ(std::fwrite(&number, sizeof number, 1, made), 1U);
  }
  std::fflush(made);
  auto opened = RandomFile::open("/proc/self/fd/" + std::to_string(fileno(made)));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto file = std::make_shared<const RandomFile>(std::move(opened).value());
  const auto view = weights_of(
      {.dtype = "F32", .source = bytes_of_file(file, 0, file->size()), .dims = {2, 1}, .strides = {kFar, 1}});
  std::vector<float> values(2);
  ASSERT_TRUE(view->read(0, 0, 2, values.data()).ok());
  EXPECT_EQ(values, (std::vector<float>{5, 6}));
  std::fclose(made);
}

TEST(StoredWeights, ATensorThatLeavesItsDataIsRejected) {
  const std::vector<float> numbers(10);
  const Source source = bytes_of_file(file_of(numbers), 0, 40);
  const auto add = [&](Bytes begin, std::vector<int64_t> dims, std::vector<int64_t> strides) {
    WeightContents contents{.path = "input"};
    const Status added = contents.add(
        "w",
        {.dtype = "F32", .source = source, .begin = begin, .dims = std::move(dims), .strides = std::move(strides)});
    return added.ok() ? "" : added.error().message;
  };
  EXPECT_EQ(add(0, {2, 5}, {}), "");
  EXPECT_EQ(add(0, {10}, {1}), "");
  EXPECT_EQ(add(4, {4}, {2}), "");
  EXPECT_EQ(add(0, {0, int64_t{1} << 62, 8}, {1, 1, 1}), "");
  EXPECT_EQ(add(0, {0, int64_t{1} << 62, 8}, {}), "");
  EXPECT_THAT(add(0, {11}, {}), HasSubstr("w in input: its 11 elements (F32) are not within its 40 bytes of data"));
  EXPECT_THAT(add(4, {10}, {1}), HasSubstr("are not within"));
  EXPECT_THAT(add(44, {1}, {}), HasSubstr("are not within"));
  EXPECT_THAT(add(-4, {1}, {}), HasSubstr("are not within"));
  EXPECT_THAT(add(8, {4}, {3}), HasSubstr("are not within"));
  EXPECT_THAT(add(0, {2}, {-1}), HasSubstr("are not within"));
  EXPECT_THAT(add(0, {-1}, {}), HasSubstr("are not within"));
  EXPECT_THAT(add(0, {int64_t{1} << 62, 8}, {}), HasSubstr("its many elements"));
  EXPECT_THAT(add(0, {2, 3}, {INT64_MAX, INT64_MAX}), HasSubstr("its many elements"));
}

TEST(StoredWeights, TwoTensorsOfOneNameAreRejected) {
  const std::vector<float> numbers(2);
  WeightContents contents{.path = "input"};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(contents.add("w", {.source = bytes_of_file(file_of(numbers), 0, 8), .dims = {2}}).ok());
  }
  const auto made = make_stored_weights(std::move(contents), "test", nullptr);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "input: two tensors have the name w");
}

TEST(StoredWeights, UnpackedBytesAreHeldForOneSourceAtATime) {
  const auto memory = make_unpacked_bytes();
  int unpacked = 0;
  const auto source = [&](std::byte value) {
    return unpacked_bytes(memory, "input", 2, [&unpacked, value]() -> Result<std::vector<std::byte>> {
      ++unpacked;
      return std::vector<std::byte>(2, value);
    });
  };
  const Source joined = joined_bytes({source(std::byte{1}), source(std::byte{2}), source(std::byte{3})});
  EXPECT_EQ(joined->bytes(), 6);
  std::vector<std::byte> read(4);
  ASSERT_TRUE(joined->read(1, read).ok());
  EXPECT_EQ(read, (std::vector<std::byte>{std::byte{1}, std::byte{2}, std::byte{2}, std::byte{3}}));
  EXPECT_EQ(unpacked, 3);
  ASSERT_TRUE(joined->read(4, std::span(read).first(1)).ok());
  EXPECT_EQ(unpacked, 3);
  const Source wrong =
      unpacked_bytes(memory, "input", 3, []() -> Result<std::vector<std::byte>> { return std::vector<std::byte>(2); });
  const Status short_of = wrong->read(0, std::span(read).first(1));
  ASSERT_FALSE(short_of.ok());
  EXPECT_EQ(short_of.error().message, "input: 2 bytes of data instead of 3");
}

TEST(StoredWeights, AStopEndsAReadOfPackedAndOfCheckedBytes) {
  const std::atomic<bool> stop = true;
  const std::vector<float> numbers(4);
  WeightContents contents{.path = "input"};
  ASSERT_TRUE(contents.add("w", {.source = bytes_of_file(file_of(numbers), 0, 16), .dims = {4}}).ok());
  const auto made = make_stored_weights(std::move(contents), "test", &stop);
  float value = 0;
  EXPECT_EQ(made.value()->read(0, 0, 1, &value).error().kind, ErrorKind::kInterrupted);
  const Source checked = checked_bytes_of_file(file_of(numbers), 0, 16, 1, "input", &stop);
  std::byte byte{};
  EXPECT_EQ(checked->read(0, {&byte, 1}).error().kind, ErrorKind::kInterrupted);
  const Source wrong = checked_bytes_of_file(file_of(numbers), 0, 16, 1, "input", nullptr);
  EXPECT_EQ(wrong->read(0, {&byte, 1}).error().message, "input: the checksum of its 16 bytes from byte 0 on is wrong");
}

}  // namespace
}  // namespace xrun::runtime
