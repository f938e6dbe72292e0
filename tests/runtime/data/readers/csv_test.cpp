// Columns of tables as rows of inputs: by position and by name, with cells that are missing or not numbers.
#include "runtime/data/readers/csv.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/data/open_reader.h"
#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CsvSources : public Files {
 protected:
  static CallSpec columns(std::vector<std::string> names) {
    return {"columns", {{"range", TextList(std::move(names))}}, {}};
  }
  static CallSpec columns(int64_t begin, int64_t end) {
    return {"columns", {{"range", std::vector<int64_t>{begin, end}}}, {}};
  }
  static DataBinding binding(std::vector<CallSpec> stages) {
    return {.target = "x", .field = "row", .stages = std::move(stages)};
  }

  // Opens t.csv, whose columns fill an input x of `width` numbers.
  Result<std::unique_ptr<SampleRows>> open(std::string_view text, std::vector<CallSpec> stages, int64_t width,
                                           Attrs args = {{"header", true}}) {
    write("t.csv", text);
    args.set("path", std::string("t.csv"));
    if (!args.has("delimiter")) {
      args.set("delimiter", std::string(","));
    }
    const DataSpec data{.name = "d",
                        .sources = {source("train", "csv", std::move(args), root_.string())},
                        .bindings = {binding(std::move(stages))}};
    return SampleRows::open(data, "train", graph(width));
  }
  static Graph graph(int64_t width) { return inputs({{"x", {.dtype = DType::kF32, .dims = {kBatch, width}}}}); }
  static std::vector<float> row(const SampleRows& rows, int64_t sample, int64_t width) {
    const Graph of = graph(width);
    Batch batch(of, 1);
    AugmentScratch scratch;
    const Status done = rows.fill(sample, {}, scratch, batch.view, 0);
    EXPECT_TRUE(done.ok()) << done.error().message;
    return {batch.floats(0), batch.floats(0) + width};
  }
  static std::string fault(const SampleRows& rows, int64_t sample, int64_t width) {
    const Graph of = graph(width);
    Batch batch(of, 1);
    AugmentScratch scratch;
    const Status done = rows.fill(sample, {}, scratch, batch.view, 0);
    return done.ok() ? "" : done.error().code + ": " + done.error().message + " | " + done.error().help;
  }
};

TEST_F(CsvSources, ColumnsAreReadByNameInTheOrderOfTheNames) {
  const auto rows = open("a,b,c\n1,2,3\n4,5,6\n", {columns({"c", "a"})}, 2);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  EXPECT_THAT(row(**rows, 0, 2), ElementsAre(3, 1));
  EXPECT_THAT(row(**rows, 1, 2), ElementsAre(6, 4));
  const auto unknown = open("width,height\n1,2\n", {columns({"height", "widht"})}, 2);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, "XG0413");
  EXPECT_EQ(unknown.error().message, "the table has no column `widht`");
  EXPECT_THAT(unknown.error().help, HasSubstr("the nearest is `width`"));
  EXPECT_THAT(open("1,2\n", {columns({"a"})}, 1, {}).error().help, HasSubstr("csv(..., header=true)"));
  EXPECT_EQ(open("a,b\n1,2\n", {columns({"a", "a"})}, 2).error().code, "XG0413");
  EXPECT_EQ(open("a,b\n1,2\n", {columns({"a"})}, 2).error().code, "XG0404") << "the input has another width";
  EXPECT_EQ(open("a,b\n1,cat\n", {columns({"a", "b"})}, 2).error().code, "XG0412") << "a column of texts";
}

TEST_F(CsvSources, ARowWithACellThatIsNotANumberIsABrokenSample) {
  const std::string_view text = "a,b,c\n1,2,3\n4,x5,6\n7,?,9\n10,11,12.q\n13,14,15\n";
  const auto rows = open(text, {columns(0, 2)}, 2);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  EXPECT_THAT(row(**rows, 0, 2), ElementsAre(1, 2));
  const std::string at = " of source `train`: column 1 (`b`) is ";
  const std::string file = (root_ / "t.csv").string();
  EXPECT_EQ(fault(**rows, 1, 2), "XG0412: " + file + ":3" + at +
                                     "\"x5\", not a number | correct the cell, remove the line, or raise `max_bad`");
  EXPECT_THAT(fault(**rows, 2, 2), HasSubstr(":4" + at + "a missing value"));
  EXPECT_THAT(row(**rows, 3, 2), ElementsAre(10, 11)) << "no binding reads the cell that is not a number";
  const auto warning = (*rows)->broken_cells();
  ASSERT_TRUE(warning.has_value());
  EXPECT_THAT(warning->message, HasSubstr("source `train`: 2 of 5 rows have a cell that cannot be used; the first: "));
  EXPECT_THAT(warning->message, HasSubstr("t.csv:3: column 1 (`b`) is \"x5\""));
  EXPECT_FALSE(open("a,b\n1,2\n", {columns(0, 2)}, 2).value()->broken_cells().has_value());
  EXPECT_GT((*rows)->reader().memory(), static_cast<Bytes>(5 * 3 * sizeof(double))) << "the text of the cell counts";
}

TEST_F(CsvSources, MissingValuesAreFilledWhereABindingSaysSo) {
  const CallSpec fill{"fill_missing", {{"value", -7.0}}, {}};
  const auto rows = open("a,b\n1,\nNA,4\nx,5\n6,inf\n7,8\n", {columns(0, 2), fill}, 2);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  EXPECT_THAT(row(**rows, 0, 2), ElementsAre(1, -7));
  EXPECT_THAT(row(**rows, 1, 2), ElementsAre(-7, 4));
  EXPECT_THAT(fault(**rows, 2, 2), HasSubstr("column 0 (`a`) is \"x\", not a number")) << "no missing value";
  EXPECT_THAT(fault(**rows, 3, 2), HasSubstr("infinite or more than f32 can hold"));
  const auto scaled = open("a,b\n1,\n", {columns(0, 2), {"scale", {{"k", 2.0}}, {}}, fill}, 2);
  EXPECT_THAT(row(**scaled, 0, 2), ElementsAre(2, -7)) << "after a stage that computes in f32";
}

TEST_F(CsvSources, ATableOfOneColumnNamesTheLikelyDelimiter) {
  const auto help = [&](std::string_view text, bool header) {
    const auto rows = open(text, {columns(0, 3)}, 3, {{"header", header}});
    EXPECT_FALSE(rows.ok());
    return rows.ok() ? "" : rows.error().message + " | " + rows.error().help;
  };
  const std::string one = "the table has only one column | its lines contain another delimiter: ";
  EXPECT_EQ(help("1;2;3\n4;5;6\n", false), one + "write csv(..., delimiter=\";\")");
  EXPECT_EQ(help("1\t2\t3\n", false), one + "write csv(..., delimiter=\"\\t\")");
  EXPECT_EQ(help("1|2|3\n", false), one + "write csv(..., delimiter=\"|\")");
  EXPECT_EQ(help("1   2 3\n", false), one + "write csv(..., delimiter=\" \")");
  EXPECT_EQ(help("a;b;c\n1;2;3\n", true), one + "write csv(..., delimiter=\";\")");
  EXPECT_THAT(help("1\n2\n", false), HasSubstr("`columns` asks for column 2 of 1"));
  const auto named = open("a;b\n1;2\n", {columns({"b"})}, 1);
  EXPECT_THAT(named.error().help, HasSubstr("delimiter=\";\""));
  const auto blanks = open("1   2 3\n", {columns(0, 3)}, 3, {{"delimiter", std::string(" ")}});
  EXPECT_THAT(row(*blanks.value(), 0, 3), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace xrun::runtime
