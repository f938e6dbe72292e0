// Whole numbers above 2^24, which f32 cannot hold exactly, from a table to inputs of classes and of f64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ExactNumbers : public Files {
 protected:
  // Returns one row of the input `x`, read from a table of one line.
  Result<std::vector<std::byte>> row_of(const std::string& line, const TensorType& type, std::vector<CallSpec> stages) {
    write("t.csv", line);
    const DataSpec data{
        .name = "d",
        .sources = {source("train", "csv", {{"path", std::string("t.csv")}, {"delimiter", std::string(",")}},
                           root_.string())},
        .bindings = {{.target = "x", .field = "row", .stages = std::move(stages)}}};
    const Graph graph = inputs({{"x", type}});
    XRUN_ASSIGN(const auto rows, SampleRows::open(data, "train", graph));
    Batch batch(graph, 1);
    AugmentScratch scratch;
    XRUN_TRY(rows->fill(0, {}, scratch, batch.view, 0));
    return batch.memory[0];
  }
  template <typename T>
  static std::vector<T> numbers(const std::vector<std::byte>& bytes) {
    const auto* first = reinterpret_cast<const T*>(bytes.data());
    return {first, first + bytes.size() / sizeof(T)};
  }
  static CallSpec columns(int64_t begin, int64_t end) {
    return {"columns", {{"range", std::vector<int64_t>{begin, end}}}, {}};
  }
  static CallSpec column(int64_t index) { return {"column", {{"index", index}}, {}}; }
  static CallSpec as_index(int64_t classes, int64_t first = 0) {
    return {"as_index", {{"classes", classes}, {"first", first}}, {}};
  }
};

TEST_F(ExactNumbers, AreKeptInClassesOfColumnsAndRows) {
  const std::string line = "20000001,20000003,16777217\n";
  const TensorType few{.dtype = DType::kI32, .dims = {kBatch, 2}, .classes = 16};
  EXPECT_THAT(numbers<int32_t>(row_of(line, few, {columns(0, 2), as_index(16, 20'000'000)}).value()),
              ElementsAre(1, 3));
  const TensorType many{.dtype = DType::kI32, .dims = {kBatch, 3}, .classes = 30'000'000};
  EXPECT_THAT(numbers<int32_t>(row_of(line, many, {columns(0, 3), as_index(30'000'000)}).value()),
              ElementsAre(20'000'001, 20'000'003, 16'777'217))
      << "more classes than f32 can number";
  const TensorType one{.dtype = DType::kI32, .dims = {kBatch}, .classes = 30'000'000};
  EXPECT_THAT(numbers<int32_t>(row_of(line, one, {column(2), as_index(30'000'000)}).value()), ElementsAre(16'777'217));
  const TensorType wide{.dtype = DType::kI64, .dims = {kBatch}, .classes = int64_t{1} << 40};
  EXPECT_THAT(numbers<int64_t>(row_of("1099511627775\n", wide, {column(0), as_index(int64_t{1} << 40)}).value()),
              ElementsAre((int64_t{1} << 40) - 1));
}

TEST_F(ExactNumbers, AreKeptInInputsOfF64) {
  const TensorType pair{.dtype = DType::kF64, .dims = {kBatch, 2}};
  const TensorType one{.dtype = DType::kF64, .dims = {kBatch}};
  EXPECT_THAT(numbers<double>(row_of("16777217,0.1\n", pair, {columns(0, 2)}).value()), ElementsAre(16'777'217, 0.1));
  EXPECT_THAT(numbers<double>(row_of("16777217,0.1\n", pair, {}).value()), ElementsAre(16'777'217, 0.1));
  EXPECT_THAT(numbers<double>(row_of("5,16777217\n", one, {column(1)}).value()), ElementsAre(16'777'217));
}

TEST_F(ExactNumbers, AreRefusedIfRoundedToF32) {
  const TensorType pair{.dtype = DType::kI32, .dims = {kBatch, 2}, .classes = 30'000'000};
  const CallSpec scale{"scale", {{"k", 1.0}}, {}};
  const auto refused = row_of("16777217,5\n", pair, {columns(0, 2), scale, as_index(30'000'000)});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0402");
  EXPECT_THAT(refused.error().message, HasSubstr("was converted to f32"));
  EXPECT_THAT(numbers<int32_t>(row_of("16777215,5\n", pair, {columns(0, 2), scale, as_index(30'000'000)}).value()),
              ElementsAre(16'777'215, 5));
}

TEST_F(ExactNumbers, RowsWithoutANumberAreBrokenSamples) {
  const TensorType pair{.dtype = DType::kF32, .dims = {kBatch, 2}};
  for (const std::vector<CallSpec>& stages : {std::vector<CallSpec>{columns(0, 2)}, {}}) {
    const auto missing = row_of("1,NA\n", pair, stages);
    ASSERT_FALSE(missing.ok());
    EXPECT_TRUE(is_broken_sample(missing.error()));
    EXPECT_THAT(missing.error().message, HasSubstr("t.csv:1 of source `train`: column 1 is a missing value"));
    EXPECT_THAT(row_of("inf,1\n", pair, stages).error().message,
                HasSubstr("column 0 is infinite or more than f32 can hold"));
    EXPECT_EQ(row_of("x,1\n", pair, stages).error().message,
              (root_ / "t.csv").string() + ":1: column 0 is \"x\", not a number")
        << "a column of texts is refused as a whole";
  }
}

}  // namespace
}  // namespace xrun::runtime
