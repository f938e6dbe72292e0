// Text tables: their rows and cells, numbers, texts and missing values.
#include "runtime/formats/tables/csv.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/formats/foreign.h"
#include "runtime/formats/tables/csv_cells.h"
#include "runtime/formats/tables/csv_rows.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CsvTable table_of(std::string_view text, const CsvOptions& options = {}) {
  auto table = parse_csv(text, options, "t.csv");
  EXPECT_TRUE(table.ok()) << table.error().message;
  return table.ok() ? std::move(table).value() : CsvTable();
}

std::string fault_of(std::string_view text, const CsvOptions& options = {}) {
  const auto table = parse_csv(text, options, "t.csv");
  return table.ok() ? std::string() : table.error().message + " | " + table.error().help;
}

TEST(Csv, FaultsNameLineAndColumn) {
  const auto column = [](std::string_view text) { return table_of(text).columns[1].fault; };
  EXPECT_EQ(column("1,2\n3,x4\n"), "t.csv:2: column 1 is \"x4\", not a number");
  EXPECT_EQ(column("1,+-1\n"), "t.csv:1: column 1 is \"+-1\", not a number");
  EXPECT_EQ(column("1,++1\n"), "t.csv:1: column 1 is \"++1\", not a number");
  EXPECT_EQ(column("1,+\n"), "t.csv:1: column 1 is \"+\", not a number");
  EXPECT_EQ(column("1,+1\n"), "");
  const std::string cells = " | give all lines the same number of cells, and put a text that contains `,` in quotes";
  EXPECT_EQ(fault_of("1,2\n3\n"), "t.csv:2: 1 column, but 2 in the rows before" + cells);
  EXPECT_EQ(fault_of("1,2\n3,4,5\n"), "t.csv:2: 3 columns, but 2 in the rows before" + cells);
  const std::string quotes = " | close the quote, or write each quote inside a text twice: \"\"";
  EXPECT_EQ(fault_of("1,2\n1,\"2\n\n3,4"), "t.csv:2: a quote that is not closed" + quotes);
  EXPECT_EQ(fault_of("1,\"2\"3\n"), "t.csv:1: text after a closing quote" + quotes);
  EXPECT_EQ(fault_of("1,2\n\"a\nb\",\"2\n\"3\n"), "t.csv:3: text after a closing quote" + quotes);
  EXPECT_EQ(fault_of("1,\"" + std::string((1 << 20) + 2, 'x') + "\"\n"),
            "t.csv:1: a quote that is not closed within 1 MiB" + quotes);
  EXPECT_EQ(table_of("\xEF\xBB\xBF"
                     "1,2\n")
                .numbers,
            (std::vector<double>{1, 2}));
  EXPECT_EQ(fault_of(""), "");
}

TEST(Csv, TextsAreNumberedInByteOrderAndCellsMayBeQuoted) {
  const auto table =
      table_of("\"id\",kind , \"a, \"\"b\"\"\"\n1,pear,\"x\"\n\n2, apple ,7\n3,\"pear\",x\n", {.header = true});
  ASSERT_EQ(table.columns.size(), 3u);
  EXPECT_EQ(table.columns[1].name, "kind");
  EXPECT_EQ(table.columns[2].name, "a, \"b\"");
  EXPECT_EQ(table.columns[0].fault, "");
  EXPECT_EQ(table.columns[1].texts, (std::vector<std::string>{"apple", "pear"}));
  EXPECT_EQ(table.columns[2].texts, (std::vector<std::string>{"7", "x"}));
  EXPECT_EQ(table.numbers, (std::vector<double>{1, 1, 1, 2, 0, 0, 3, 1, 1}));
  EXPECT_EQ(table.columns[1].fault, "t.csv:2: column 1 (`kind`) is \"pear\", not a number");
  EXPECT_EQ(table.line_of(0), 2);
  EXPECT_EQ(table.line_of(1), 4) << "empty lines are lines";
  EXPECT_EQ(table.line_of(2), 5);
}

TEST(Csv, AllLineEndingsAreReadAndQuotesMayContainLineBreaks) {
  for (const char* text : {"1,a\n\n2,b\n3,a", "1,a\r\n\r\n2,b\r\n3,a\r\n", "1,a\r\r2,b\r3,a\r", "1,a\n\r\n2,b\r3,a"}) {
    const auto table = table_of(text);
    EXPECT_EQ(table.numbers, (std::vector<double>{1, 0, 2, 1, 3, 0})) << text;
    EXPECT_EQ(table.line_of(1), 3) << text;
    EXPECT_EQ(table.line_of(2), 4) << text;
  }
  const auto table = table_of("id,\"the\nname\"\n1,\"a\r\nb\"\n2,\"c\rd\n\"\n3,\"\"\"\"\n4,x y\n", {.header = true});
  EXPECT_EQ(table.columns[1].name, "the\nname");
  EXPECT_EQ(table.columns[1].texts, (std::vector<std::string>{"\"", "a\r\nb", "c\rd\n", "x y"}));
  std::vector<int64_t> lines;
  for (int64_t row = 0; row < table.rows; ++row) {
    lines.push_back(table.line_of(row));
  }
  EXPECT_THAT(lines, ElementsAre(3, 5, 8, 9)) << "a row has the line on which it begins";
  EXPECT_EQ(table_of("\"1\n\",2\n3,x\n").columns[1].fault, "t.csv:3: column 1 is \"x\", not a number");
}

TEST(Csv, ADelimiterIsNotStrippedAsWhitespace) {
  const auto tabs = table_of("\t\"a\"\t 1 \nb\ta\t2\n \n\t\t\n", {.delimiter = '\t'});
  ASSERT_EQ(tabs.rows, 3);
  EXPECT_EQ(tabs.columns[0].texts, (std::vector<std::string>{"b"}));
  EXPECT_EQ(tabs.columns[1].texts, (std::vector<std::string>{"a"}));
  EXPECT_EQ(tabs.numbers[2], 1);
  EXPECT_TRUE(std::isnan(tabs.numbers[8])) << "a row of missing values";
  EXPECT_EQ(table_of("1 2\n3 4\n", {.delimiter = ' '}).numbers, (std::vector<double>{1, 2, 3, 4}));
}

TEST(Csv, MissingValuesLeaveAColumnNumeric) {
  for (const char* word : {"nan", "NaN", "NA", "n/a", "?", "null", "NULL", "", "\"\"", " ", "-nan", "#N/A", "<NA>",
                           "None", "-", "--", ".", "n.a."}) {
    const auto table = table_of(std::string("0,1\n1,") + word + "\n2,11\n");
    EXPECT_EQ(table.columns[1].fault, "") << word;
    EXPECT_TRUE(table.columns[1].texts.empty()) << word;
    EXPECT_TRUE(std::isnan(table.numbers[3])) << word;
    EXPECT_EQ(table.numbers[5], 11) << word;
  }
  for (const char* word : {"inf", "-Infinity", "1e39", "-1e39", "1e999"}) {
    const auto table = table_of(std::string("0,1\n1,") + word + "\n");
    EXPECT_EQ(table.columns[1].fault, "") << word;
    EXPECT_TRUE(std::isinf(table.numbers[3])) << word;
  }
  EXPECT_EQ(table_of("1e-999,0.1\n").numbers[0], 0);
  EXPECT_EQ(table_of("nan\nNA\n").columns[0].fault, "") << "no text at all";
}

TEST(Csv, MissingValuesOfAColumnOfTextsAreNotTexts) {
  const auto table = table_of("a\nNA\n\"\"\nb\nnull\nNone\n7\n-\n");
  EXPECT_EQ(table.columns[0].texts, (std::vector<std::string>{"-", "7", "None", "a", "b"}));
  EXPECT_TRUE(std::isnan(table.numbers[1]));
  EXPECT_TRUE(std::isnan(table.numbers[2]));
  EXPECT_TRUE(std::isnan(table.numbers[4]));
  EXPECT_EQ(table.numbers[6], 1);
  EXPECT_EQ(table_of("-\nNA\n--\n").columns[0].texts, (std::vector<std::string>{"-", "--"})) << "signs alone";
  const auto plain = table_of("NA,\nb,x\n", {.missing_values = false});
  EXPECT_EQ(plain.columns[0].texts, (std::vector<std::string>{"NA", "b"}));
  EXPECT_EQ(plain.columns[1].texts, (std::vector<std::string>{"", "x"}));
}

TEST(Csv, NamedColumnsAreTextsInOrderOfAppearance) {
  for (const CsvKey& key : {CsvKey(int64_t{1}), CsvKey("id")}) {
    const auto table = table_of("x,id\n1,007\n2,7\n3,NA\n4,0x7\n5,007\n6,10\n", {.header = true, .texts = {key}});
    EXPECT_EQ(table.columns[0].fault, "");
    EXPECT_EQ(table.columns[1].texts, (std::vector<std::string>{"007", "7", "0x7", "10"}));
    EXPECT_EQ(table.columns[1].fault, "t.csv: column 1 (`id`) is read as text");
    EXPECT_EQ(table.numbers[1], 0);
    EXPECT_EQ(table.numbers[3], 1);
    EXPECT_TRUE(std::isnan(table.numbers[5]));
    EXPECT_EQ(table.numbers[9], 0);
    EXPECT_EQ(table.numbers[11], 3);
  }
  EXPECT_EQ(table_of("5\n3\n5\n", {.first = 1, .texts = {int64_t{0}}}).columns[0].texts,
            (std::vector<std::string>{"3", "5"}))
      << "rows that are read alone count";
}

// A call that reads all columns as numbers.
CsvOptions numbers(bool header = false) { return {.header = header, .number_ranges = {{0, INT64_MAX}}}; }

TEST(Csv, CellsThatAreNotNumbersAreFaultsOfAColumnOfNumbers) {
  const std::string_view text = "a,b,kind\n1,2,cat\n3,x4,dog\n\n?,6,cat\n7,8 mm,dog\n9,,cat\n";
  const auto table = table_of(text, {.header = true, .number_names = {"b"}, .number_ranges = {{0, 1}}});
  ASSERT_EQ(table.faults.size(), 2u);
  EXPECT_EQ(table.columns[1].fault, "") << "the column holds numbers";
  EXPECT_TRUE(table.columns[1].texts.empty());
  EXPECT_EQ(table.columns[2].texts, (std::vector<std::string>{"cat", "dog"})) << "the others are read as before";
  EXPECT_EQ(table.fault_of(0), nullptr);
  ASSERT_NE(table.fault_of(1), nullptr);
  EXPECT_EQ(table.fault_of(1)->column, 1);
  EXPECT_EQ(table.fault_of(1)->text, "x4");
  EXPECT_EQ(table.line_of(1), 3);
  EXPECT_EQ(table.fault_of(2), nullptr) << "a missing value is not a fault";
  EXPECT_EQ(table.fault_of(3)->text, "8 mm");
  EXPECT_EQ(table.fault_of(4), nullptr);
  EXPECT_TRUE(std::isnan(table.numbers[4]));
  EXPECT_EQ(table.numbers[1], 2);
  EXPECT_EQ(table_of("1\n" + std::string(50, 'x') + "\n", numbers()).faults[0].text, std::string(40, 'x'));
}

TEST(Csv, AColumnOfTextsStaysOneHoweverItIsRead) {
  const auto column = [](std::string_view text, const CsvOptions& options) {
    const auto table = table_of(text, options);
    EXPECT_TRUE(table.faults.empty()) << text;
    return table.columns[0].fault;
  };
  EXPECT_EQ(column("cat,1\ndog,2\n", numbers()), "t.csv:1: column 0 is \"cat\", not a number");
  EXPECT_EQ(column("1,5\n2,5\nx,5\ny,5\nz,5\n", numbers()), "t.csv:3: column 0 is \"x\", not a number")
      << "most of its cells are texts";
  EXPECT_EQ(column("width,height\n1,2\n3,4\n", numbers()), "t.csv:1: column 0 is \"width\", not a number")
      << "the header that `header=true` does not declare is no sample";
  EXPECT_EQ(table_of("x,2\n1,2\n3,4\n", numbers()).faults.size(), 1u) << "the first row has a number";
  EXPECT_EQ(table_of("h\nx\n1\n", numbers(true)).faults.size(), 1u) << "the header is declared";
  std::string many;
  for (size_t i = 0; i <= CsvTable::kMostFaults; ++i) {
    many += "1\nx\n";
  }
  EXPECT_EQ(column(many, numbers()), "t.csv:2: column 0 is \"x\", not a number") << "their number is limited";
  EXPECT_EQ(table_of(many.substr(4), numbers()).faults.size(), CsvTable::kMostFaults);
  CsvOptions both = numbers();
  both.texts = {int64_t{0}};
  EXPECT_EQ(column("1\n2\n", both), "t.csv: column 0 is read as text");
}

TEST(Csv, RunsOfBlanksSeparateCellsIfTheDelimiterIsASpace) {
  const auto table = table_of("  5.1   3.5 \t1.4  \"a b\"\n6.1 2.5\t1.5 c  \r\n \t\n4 5 6 \"d\"", {.delimiter = ' '});
  EXPECT_EQ(table.rows, 3);
  ASSERT_EQ(table.columns.size(), 4u);
  EXPECT_EQ(table.numbers[1], 3.5);
  EXPECT_EQ(table.numbers[2], 1.4);
  EXPECT_EQ(table.numbers[8], 4);
  EXPECT_EQ(table.columns[3].texts, (std::vector<std::string>{"a b", "c", "d"}));
  EXPECT_THAT(fault_of("1 2\n3 \"a\"b\n", {.delimiter = ' '}), HasSubstr("t.csv:2: text after a closing quote"));
  EXPECT_THAT(fault_of("1 2\n3\n", {.delimiter = ' '}), HasSubstr("t.csv:2: 1 column, but 2 in the rows before"));
  for (const char delimiter : {';', '|', '\t'}) {
    std::string text = "1, 2,,3\n4,5,6,7\n";
    std::ranges::replace(text, ',', delimiter);
    const auto other = table_of(text, {.delimiter = delimiter});
    ASSERT_EQ(other.columns.size(), 4u) << delimiter;
    EXPECT_EQ(other.numbers[1], 2);
    EXPECT_TRUE(std::isnan(other.numbers[2])) << "two delimiters enclose an empty cell";
  }
}

TEST(Csv, HelpFitsTheFault) {
  const auto help = [](std::string_view text, const CsvOptions& options = {}) {
    return table_of(text, options).columns[0].help;
  };
  EXPECT_EQ(help("width,1\n2,3\n"), "fix the line, or say `header=true` if it holds the names of the columns");
  EXPECT_EQ(help("1,1\nx,3\n"), "fix the line") << "the second line is no header";
  EXPECT_EQ(help("a,b\nx,3\n", {.header = true}), "fix the line") << "it is said already";
  EXPECT_EQ(help("n\n1;2\n", {.header = true}), "fix the line, or say `delimiter=\";\"`");
  EXPECT_EQ(help("n\n1\t2\n", {.header = true}), "fix the line, or say `delimiter=\"\\t\"`");
  EXPECT_EQ(help("2,5;1\n", {.delimiter = ';'}), "write decimals with a point: 2.5");
}

TEST(Csv, AHeaderThatLooksLikeASampleIsDetected) {
  const auto numbers = [](std::string_view text) { return table_of(text, {.header = true}).header_of_numbers; };
  EXPECT_TRUE(numbers("5.1,3.5,0\n4.9,3.0,1\n"));
  EXPECT_TRUE(numbers("0,1\n1,0\n"));
  EXPECT_FALSE(numbers("0,1,2,3\n5,6,7,8\n")) << "columns that a program has counted";
  EXPECT_FALSE(numbers("1,2,3\n5,6,7\n"));
  EXPECT_FALSE(numbers("x,1\n5,6\n"));
  EXPECT_FALSE(numbers(",1\n5,6\n")) << "the name of an index is empty";
  EXPECT_FALSE(table_of("5,6\n7,8\n").header_of_numbers) << "without `header=true`";
}

TEST(Csv, FilesOfOtherFormatsAreRefusedAndNamed) {
  const auto fault = [](std::string_view bytes) {
    const Status status = refuse_foreign(std::as_bytes(std::span(bytes)), "t.csv");
    return status.ok() ? std::string() : status.error().message + " | " + status.error().help;
  };
  EXPECT_EQ(fault("1,2\n"), "");
  EXPECT_EQ(fault(""), "");
  EXPECT_EQ(fault("BZh91AY"),
            "t.csv: a file compressed by bzip2, which is not read as a table | unpack it (bunzip2), or "
            "compress it by gzip instead");
  EXPECT_THAT(fault(std::string_view("\xFD"
                                     "7zXZ\0",
                                     6)),
              HasSubstr("compressed by xz"));
  EXPECT_THAT(fault("\x28\xB5\x2F\xFD"), HasSubstr("compressed by zstd"));
  EXPECT_THAT(fault("PK\x03\x04"), HasSubstr("save the workbook as CSV"));
  EXPECT_THAT(fault(std::string_view("\xFF\xFE"
                                     "1\0",
                                     4)),
              HasSubstr("save it in UTF-8"));
  EXPECT_THAT(fault(std::string_view("1\0,\0", 4)), HasSubstr("bytes with the value 0"));
}

}  // namespace
}  // namespace xrun::runtime
