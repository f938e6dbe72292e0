// Lines of text: labels and texts, tables, broken lines, places in messages.
#include "runtime/data/readers/text_reader.h"

#include <gmock/gmock.h>

#include "runtime/data/open_reader.h"
#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::label_of;
using testing::source;
using TextReader = testing::Files;

SourceSpec text(const std::string& path, Attrs more = {}, const std::string& delimiter = "\t") {
  Attrs args{{"path", path}, {"delimiter", delimiter}, {"header", more.flag("header", false)}};
  for (const auto& [name, value] : more.all()) {
    args.set(name, value);
  }
  return source("train", "text", std::move(args));
}

std::unique_ptr<Reader> open(const SourceSpec& spec) {
  auto reader = open_reader(spec);
  EXPECT_TRUE(reader.ok()) << reader.error().message << reader.error().help;
  return reader.ok() ? std::move(reader).value() : nullptr;
}

std::string text_of(const Reader& reader, int64_t sample) {
  FieldValue value;
  const Status done = reader.read(sample, 0, value);
  return done.ok() ? std::string(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size())
                   : done.error().code + ": " + done.error().message;
}

void expect_fault(const SourceSpec& spec, const char* code, const std::string& message, const std::string& help) {
  const auto reader = open_reader(spec);
  ASSERT_FALSE(reader.ok()) << message;
  EXPECT_EQ(reader.error().code, code);
  EXPECT_THAT(reader.error().message, HasSubstr(message));
  EXPECT_THAT(reader.error().help, HasSubstr(help));
}

TEST_F(TextReader, ALineIsALabelAndTheRestOfTheLine) {
  const std::string path = write(
      "a.tsv", "\xEF\xBB\xBFwalk\twalked\r\n\n\nrun\tran\tfar \nwalk \twalk\n\xC3\xA9t\xC3\xA9\t\xC3\xA9t\xC3\xA9s");
  const auto reader = open(text(path));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->samples(), 4);
  EXPECT_EQ(reader->classes(), 3);
  EXPECT_EQ(reader->describe(), "text: 4 lines, 3 classes");
  EXPECT_GE(reader->memory(), 4 * 16);
  EXPECT_LT(reader->memory(), 4096);
  EXPECT_EQ(text_of(*reader, 0), "walked");
  EXPECT_EQ(text_of(*reader, 1), "ran\tfar ") << "a later tab is part of the text";
  EXPECT_EQ(text_of(*reader, 3), "\xC3\xA9t\xC3\xA9s");
  EXPECT_EQ(reader->class_name(0), "run");
  EXPECT_EQ(reader->class_name(1), "walk");
  EXPECT_EQ(label_of(*reader, 0), 1);
  EXPECT_EQ(label_of(*reader, 1), 0);
  EXPECT_EQ(label_of(*reader, 2), 1) << "blanks do not belong to a label";
  EXPECT_EQ(label_of(*reader, 3), 2);
  EXPECT_EQ(reader->sample_name(0), path + ":1");
  EXPECT_EQ(reader->sample_name(1), path + ":4");
  EXPECT_EQ(reader->sample_name(3), path + ":6");
}

TEST_F(TextReader, ReadsAnyLineAtAnyTime) {
  std::string lines;
  for (int i = 0; i < 5000; ++i) {
    lines += std::to_string(i % 7) + "\ttext " + std::to_string(i) + "\n" + (i % 3 == 0 ? "\n" : "");
  }
  const auto reader = open(text(write("a.tsv", lines)));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->samples(), 5000);
  EXPECT_EQ(reader->classes(), 7);
  EXPECT_EQ(reader->class_name(3), "") << "numbers are no names";
  for (const int64_t sample : {4999, 0, 17, 3000, 17, 1}) {
    EXPECT_EQ(text_of(*reader, sample), "text " + std::to_string(sample));
    EXPECT_EQ(label_of(*reader, sample), sample % 7);
    EXPECT_THAT(reader->sample_name(sample), ::testing::EndsWith(":" + std::to_string(1 + sample + (sample + 2) / 3)));
  }
}

TEST_F(TextReader, BlanksBeforeAHeaderDoNotMoveItsColumns) {
  const std::string path = write("a.txt", "  lemma  form \t\n walk walked\n   go went\n");
  const auto reader =
      open(text(path, {{"header", true}, {"label", std::string("lemma")}, {"text", std::string("form")}}, " "));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(text_of(*reader, 0), "walked");
  EXPECT_EQ(text_of(*reader, 1), "went");
  EXPECT_EQ(reader->class_name(label_of(*reader, 1)), "go");
}

TEST_F(TextReader, ColumnsAreChosenByPositionOrName) {
  const std::string path = write("a.csv", "lemma,form,tags\nwalk,walked,PST\ngo,went,PST\n");
  const auto by_name =
      open(text(path, {{"header", true}, {"label", std::string("lemma")}, {"text", std::string("form")}}, ","));
  ASSERT_NE(by_name, nullptr);
  EXPECT_EQ(by_name->samples(), 2);
  EXPECT_EQ(text_of(*by_name, 1), "went");
  EXPECT_EQ(by_name->class_name(label_of(*by_name, 1)), "go");
  const auto by_position = open(text(path, {{"label", int64_t{2}}, {"text", int64_t{0}}}, ","));
  ASSERT_NE(by_position, nullptr);
  EXPECT_EQ(by_position->samples(), 3);
  EXPECT_EQ(text_of(*by_position, 1), "walk");
  EXPECT_EQ(by_position->classes(), 2);
  const auto alone = open(text(path, {{"text", int64_t{1}}}, ","));
  ASSERT_NE(alone, nullptr);
  EXPECT_FALSE(alone->has_labels());
  EXPECT_EQ(alone->find_field("label"), -1);
  EXPECT_EQ(alone->describe(), "text: 3 lines, without labels");
  expect_fault(text(path, {{"header", true}, {"text", std::string("from")}}, ","), "XG0413",
               "a.csv has no column `from`", "the nearest is `form`");
  expect_fault(text(path, {{"text", std::string("form")}}, ","), "XG0413", "`text` is \"form\"", "header=true");
  expect_fault(text(path, {{"label", int64_t{0}}}, ","), "XG0413", "`label` is given without `text`",
               "label=0, text=2");
  expect_fault(text(path, {{"text", int64_t{0}}, {"classes", int64_t{3}}}, ","), "XG0413", "`classes` is 3",
               "no labels");
}

TEST_F(TextReader, RunsOfBlanksSeparateColumns) {
  const auto reader = open(text(write("a.txt", "  __label__x \t a text\n__label__y  b\n"), {}, " "));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->class_name(0), "__label__x");
  EXPECT_EQ(text_of(*reader, 0), "a text");
  EXPECT_EQ(text_of(*reader, 1), "b");
}

TEST_F(TextReader, ALineThatCannotBeUsedIsABrokenSample) {
  const auto reader = open(text(write("a.tsv", "a\tone\nb\n\ttwo\nb\t \nb\t\xE9t\xE9\nc\tsix\n")));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->samples(), 6);
  EXPECT_EQ(reader->classes(), 3);
  EXPECT_EQ(text_of(*reader, 0), "one");
  EXPECT_EQ(text_of(*reader, 1), "XG0412: the line has no text: its column 1 is missing or empty");
  EXPECT_EQ(text_of(*reader, 2), "two");
  EXPECT_EQ(text_of(*reader, 3), "XG0412: the line has no text: its column 1 is missing or empty");
  EXPECT_EQ(text_of(*reader, 4), "XG0412: byte 0 of the text is not UTF-8");
  FieldValue value;
  const Status lacking = reader->read(2, 1, value);
  ASSERT_FALSE(lacking.ok());
  EXPECT_EQ(lacking.error().code, "XG0412");
  EXPECT_EQ(lacking.error().message, "the line has no label: its column 0 is missing or empty");
  EXPECT_EQ(label_of(*reader, 1), 1);
  EXPECT_EQ(label_of(*reader, 5), 2);
}

TEST_F(TextReader, OtherFilesAreRejected) {
  expect_fault(text("/no/such.tsv"), "XG0401", "/no/such.tsv", "");
  expect_fault(text(write("a.tsv.gz", "\x1F\x8B\x08zzzz")), "XG0412", "gzip", "unpack");
  expect_fault(text(write("empty.tsv", "\n\n")), "XG0406", "text: 0 lines", "");
  expect_fault(text(write("a.tsv", "0\ta\nx\tb\n"), {{"classes", int64_t{3}}}), "XG0402", "a.tsv:2: the label `x`",
               "leave `classes` out");
  expect_fault(text(write("b.tsv", "0\ta\n3\tb\n"), {{"classes", int64_t{3}}}), "XG0402", "", "");
  const std::string long_line = "a\t" + std::string(static_cast<size_t>(kLongestTextLine), 'x');
  expect_fault(text(write("long.tsv", long_line)), "XG0412", "long.tsv:1: a line of more than 16.0 MiB", "");
}

TEST_F(TextReader, AFileThatBecomesShorterIsNoticed) {
  const std::string path = write("a.tsv", "a\tone\nb\ttwo\n");
  const auto reader = open(text(path));
  ASSERT_NE(reader, nullptr);
  std::filesystem::resize_file(path, 8);
  EXPECT_EQ(text_of(*reader, 0), "one");
  EXPECT_THAT(text_of(*reader, 1), HasSubstr("XG0412"));
}

TEST(SplitText, GivesTheCellsOfALine) {
  const auto cells = [](std::string_view line, char delimiter, const TextColumns& columns) {
    const TextCells found = split_text(line, delimiter, columns);
    return std::string(found.label.value_or("-")) + "|" + std::string(found.text.value_or("-"));
  };
  EXPECT_EQ(cells("a\tb\tc", '\t', {}), "a|b\tc");
  EXPECT_EQ(cells("a", '\t', {}), "a|-");
  EXPECT_EQ(cells("a\t", '\t', {}), "a|-");
  EXPECT_EQ(cells("a,b,c", ',', {.label = 2, .text = 0, .rest = false}), "c|a");
  EXPECT_EQ(cells("a,b", ',', {.label = 0, .text = 0, .rest = false}), "a|a");
  EXPECT_EQ(cells("a,b", ',', {.label = -1, .text = 1, .rest = false}), "-|b");
  EXPECT_EQ(cells("a,b", ',', {.label = 5, .text = 6, .rest = false}), "-|-");
}

}  // namespace
}  // namespace xrun::runtime
