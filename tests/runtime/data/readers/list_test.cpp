#include "runtime/data/readers/list.h"

#include <gmock/gmock.h>

#include "runtime/data/open_reader.h"
#include "runtime/data/readers/base64_list.h"
#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Lists : public Files {
 protected:
  SourceSpec list(const std::string& text, const std::string& root = "", const std::string& delimiter = "\t",
                  Attrs args = {}) {
    args.set("path", write("list.txt", text));
    args.set("root", root);
    args.set("delimiter", delimiter);
    return source("train", "list", std::move(args));
  }
  Error error_of(const SourceSpec& spec) {
    const auto reader = open_reader(spec);
    EXPECT_FALSE(reader.ok());
    return reader.ok() ? Error() : reader.error();
  }
};

std::string made_file(const std::string& name) {
  return std::string(XRUN_SOURCE_DIR) + "/tests/runtime/data/files/plsc/" + name;
}
SourceSpec plsc(const std::string& name) {
  return source("train", "list",
                {{"path", made_file(name)}, {"root", std::string()}, {"delimiter", std::string("\t")}});
}
std::string bytes_of(const Reader& reader, int64_t sample, int field = 0) {
  FieldValue value;
  const Status read = reader.read(sample, field, value);
  EXPECT_TRUE(read.ok()) << read.error().message;
  return {reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()};
}
std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(PlscLists, AListOfVersion2NamesItsPictures) {
  const auto reader = open_reader(plsc("label.txt")).value();
  ASSERT_EQ(reader->samples(), 5);
  EXPECT_EQ(reader->classes(), 3);
  EXPECT_EQ(reader->describe(), "list: 5 images, 3 classes");
  for (int64_t i = 0; i < 5; ++i) {
    const std::string path = made_file("images/" + std::to_string(i) + ".png");
    EXPECT_EQ(bytes_of(*reader, i), file_bytes(path));
    EXPECT_EQ(reader->sample_name(i), path);
    EXPECT_EQ(label_of(*reader, i), (std::vector<int64_t>{0, 1, 2, 1, 0})[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(reader->class_name(2), "") << "labels are numbers";
}

// The parts hold samples 3, 0, 4 and 2, 1, 3: the last one is the repeat that makes the parts equally long.
TEST(PlscLists, PartsOfVersion1AreReadWithTheirRepeats) {
  const auto files = open_reader(plsc("label.txt")).value();
  const auto reader = open_reader(plsc("file_list.txt")).value();
  const std::vector<int64_t> order{3, 0, 4, 2, 1, 3};
  ASSERT_EQ(reader->samples(), 6);
  EXPECT_EQ(reader->classes(), 3);
  EXPECT_EQ(reader->describe(), "list: 6 images in base64, 3 classes, 2 parts");
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(bytes_of(*reader, static_cast<int64_t>(i)), bytes_of(*files, order[i]));
    EXPECT_EQ(label_of(*reader, static_cast<int64_t>(i)), label_of(*files, order[i]));
  }
  EXPECT_THAT(reader->sample_name(3), HasSubstr("the line at byte 0 of "));
  EXPECT_THAT(reader->sample_name(3), HasSubstr("base64_rank_1"));
  EXPECT_EQ(open_reader(plsc("base64_rank_1")).value()->samples(), 3) << "a part alone";
}

TEST_F(Lists, TheLabelMayComeBeforeTheBase64) {
  std::string text;
  std::ifstream lines(made_file("base64_rank_0"));
  for (std::string line; std::getline(lines, line);) {
    text += line.substr(line.find('\t') + 1) + "\t" + line.substr(0, line.find('\t')) + "\n";
  }
  const auto reader = open_reader(list(text)).value();
  EXPECT_EQ(reader->samples(), 3);
  EXPECT_EQ(label_of(*reader, 0), 1);
  EXPECT_EQ(bytes_of(*reader, 0), bytes_of(*open_reader(plsc("base64_rank_0")).value(), 0));
}

TEST_F(Lists, DamagedBase64IsABrokenSample) {
  std::string text = file_bytes(made_file("base64_rank_0"));
  const size_t second = text.find('\n') + 1;
  text[second + 10] = '!';
  const auto reader = open_reader(list(text)).value();
  FieldValue value;
  EXPECT_EQ(reader->read(1, 0, value).error().code, "XG0412");
  EXPECT_TRUE(reader->read(2, 0, value).ok());
  const Error cut = error_of(list(text + "AAAA\n"));
  EXPECT_EQ(cut.code, "XG0412");
  EXPECT_THAT(cut.message, HasSubstr("list.txt:4: not a picture in base64, a tab and a label"));
}

TEST_F(Lists, LabelsThatAreNotAllNumbersAreNames) {
  write("a.png", "A");
  const auto reader = open_reader(list("a.png\tzebra\na.png\tant\na.png\t7\na.png\tzebra\n")).value();
  EXPECT_EQ(reader->classes(), 3);
  EXPECT_EQ(reader->class_name(0), "7");
  EXPECT_EQ(reader->class_name(1), "ant");
  EXPECT_EQ(reader->class_name(2), "zebra");
  EXPECT_EQ(label_of(*reader, 3), 2);
  EXPECT_EQ(bytes_of(*reader, 1, 2), (root_ / "a.png").string());
  EXPECT_THAT(error_of(list("a.png\t0\na.png\tant\n", "", "\t", {{"classes", int64_t{3}}})).message,
              HasSubstr("list.txt:2: the label `ant` is not a number, but `classes` is given"));
}

TEST_F(Lists, LabelsThatAreNumbersAreClasses) {
  write("a.png", "A");
  const auto reader = open_reader(list("a.png\t7.0\na.png\t-1\na.png\t003\n")).value();
  EXPECT_EQ(reader->classes(), 8);
  EXPECT_EQ(label_of(*reader, 0), 7);
  EXPECT_EQ(label_of(*reader, 1), -1);
  EXPECT_EQ(label_of(*reader, 2), 3);
  EXPECT_EQ(open_reader(list("a.png\t7\n", "", "\t", {{"classes", int64_t{9}}})).value()->classes(), 9);
  const Error half = error_of(list("a.png\t1\na.png\t7.5\n"));
  EXPECT_EQ(half.code, "XG0402");
  EXPECT_THAT(half.message, HasSubstr("list.txt:2: the label `7.5` is not the number of a class"));
  EXPECT_THAT(error_of(list("a.png\t5000000000\n")).message, HasSubstr("list.txt:1"));
  EXPECT_THAT(error_of(list("a.png\t1000000\n")).help, HasSubstr("classes=1000001"));
}

TEST_F(Lists, HeadersAreSkippedOrNoticed) {
  write("a.png", "A");
  const std::string text = "path,label\na.png,1\na.png,0\n";
  const Error noticed = error_of(list(text, "", ","));
  EXPECT_THAT(noticed.message, HasSubstr("list.txt:1: the label `label` is not a number, but all other labels are"));
  EXPECT_THAT(noticed.help, HasSubstr("header=true"));
  EXPECT_EQ(open_reader(list(text, "", ",", {{"header", true}})).value()->samples(), 2);
}

TEST_F(Lists, TheHelpForAWrongDelimiterNamesTheLikelyOne) {
  const auto help = [&](const std::string& line, const std::string& delimiter) {
    return error_of(list(line + "\n", "", delimiter)).help;
  };
  EXPECT_THAT(help("a.png,7", "\t"), HasSubstr("delimiter=\",\""));
  EXPECT_THAT(help("a.png 7", "\t"), HasSubstr("delimiter=\" \""));
  EXPECT_THAT(help("a.png;7", ","), HasSubstr("delimiter=\";\""));
  EXPECT_THAT(help("a.png\t7", ","), HasSubstr("delimiter=\"\\t\""));
  EXPECT_THAT(help("a.png", "\t"), HasSubstr("a line has a path, the delimiter and a label"));
  EXPECT_THAT(error_of(list("a.png,7\n")).message, HasSubstr("list.txt:1: `a.png,7` is not a path, a tab and a label"));
  EXPECT_THAT(error_of(list("a.png\tb.png\t1\n")).help, HasSubstr("cut -f1,2"));
  EXPECT_EQ(error_of(list("a.png\t\n")).code, "XG0412") << "no label";
  EXPECT_EQ(error_of(list("")).code, "XG0406");
  EXPECT_EQ(error_of(list("a.png\t7", "", "ab")).code, "XG0413");
}

TEST_F(Lists, PathsMayHoldTheDelimiterAndQuotes) {
  write("a b,c.png", "A");
  write("say \"a\".png", "B");
  EXPECT_EQ(bytes_of(*open_reader(list("a b,c.png,7\r\n", "", ",")).value(), 0), "A");
  EXPECT_EQ(bytes_of(*open_reader(list("a b,c.png 7\n", "", " ")).value(), 0), "A");
  const auto quoted = open_reader(list("\"a b,c.png\",\"x\"\n\"say \"\"a\"\".png\",y\n", "", ",")).value();
  EXPECT_EQ(bytes_of(*quoted, 0), "A");
  EXPECT_EQ(quoted->class_name(0), "x");
  EXPECT_EQ(bytes_of(*quoted, 1), "B");
}

TEST_F(Lists, PathsMayNotLeaveTheRoot) {
  const std::string inside = write("pictures/a.png", "A");
  const std::string outside = write("b.png", "B");
  const std::string root = (root_ / "pictures").string();
  EXPECT_EQ(bytes_of(*open_reader(list("a.png\t0\n", root)).value(), 0), "A");
  EXPECT_EQ(bytes_of(*open_reader(list("x/../a.png\t0\n" + inside + "\t0\n", root + "/")).value(), 1), "A");
  for (const std::string& path : {std::string("../b.png"), outside, root + "/../b.png", root + "x/a.png"}) {
    const Error refused = error_of(list("a.png\t0\n" + path + "\t0\n", root));
    EXPECT_EQ(refused.code, "XG0412");
    EXPECT_THAT(refused.message, HasSubstr("list.txt:2: the path " + path + " leaves `root`"));
  }
  const auto anywhere = open_reader(list(outside + "\t0\npictures/../b.png\t0\n")).value();
  EXPECT_EQ(bytes_of(*anywhere, 0), "B");
  EXPECT_EQ(bytes_of(*anywhere, 1), "B");
}

TEST_F(Lists, AMissingFileIsABrokenSampleButAllMissingIsAWrongRoot) {
  write("a.png", "A");
  const auto reader = open_reader(list("a.png\t0\ngone.png\t0\n")).value();
  FieldValue value;
  EXPECT_EQ(reader->read(1, 0, value).error().code, "XG0412");
  EXPECT_EQ(label_of(*reader, 1), 0);
  const Error wrong = error_of(list("x/a.png\t0\nx/b.png\t1\n"));
  EXPECT_EQ(wrong.code, "XG0401");
  EXPECT_THAT(wrong.message, HasSubstr("2 of 2 were examined, the first is " + (root_ / "x/a.png").string()));
  EXPECT_THAT(wrong.help, HasSubstr("root="));
}

TEST_F(Lists, HeadersReadOnlyTheStartOfPictures) {
  write("a.png", std::string(3 << 20, 'x'));
  const SourceSpec spec = list("a.png\t0\n");
  EXPECT_EQ(bytes_of(*open_header(spec).value(), 0).size(), 1u << 20);
  EXPECT_EQ(open_header(spec).value()->memory(), open_reader(spec).value()->memory());
}

}  // namespace
}  // namespace xrun::runtime
