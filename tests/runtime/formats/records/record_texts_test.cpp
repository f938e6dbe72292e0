#include "runtime/formats/records/record_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;

using RecordTexts = testing::Files;

TEST_F(RecordTexts, TheLastLineOfAKeyInAnIndexCounts) {
  const auto entries = read_record_index(write("a.idx", "5\t200\r\n0\t0\n7\t100\n5\t50\n"), nullptr).value();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].key, 0);
  EXPECT_EQ(entries[1].key, 5);
  EXPECT_EQ(entries[1].offset, 50);
  EXPECT_EQ(entries[2].key, 7);
  EXPECT_TRUE(read_record_index(write("none.idx", ""), nullptr)->empty());
}

TEST_F(RecordTexts, FaultsOfAnIndexNameTheLine) {
  const auto refused = [&](const std::string& text) {
    const auto entries = read_record_index(write("a.idx", text), nullptr);
    EXPECT_FALSE(entries.ok()) << text;
    EXPECT_EQ(entries.ok() ? "" : entries.error().code, "XG0412");
    return entries.ok() ? "" : entries.error().message;
  };
  EXPECT_THAT(refused("0\t0\nx\t4\n"), HasSubstr("a.idx:2: `x\t4` is not a line `key<tab>offset`"));
  EXPECT_THAT(refused("0 0\n"), HasSubstr("a.idx:1"));
  EXPECT_THAT(refused("0\t-4\n"), HasSubstr("a.idx:1"));
  EXPECT_THAT(refused("0\t99999999999999999999\n"), HasSubstr("a.idx:1"));
  EXPECT_THAT(refused("0\t0\t0\n"), HasSubstr("a.idx:1"));
  EXPECT_THAT(refused("\x1f\x8b\x08"), HasSubstr("gzip"));
  EXPECT_THAT(refused(std::string("0\t0\0", 4)), HasSubstr("not a text file"));
  EXPECT_THAT(refused(std::string(100'000, '1')), HasSubstr("a line of more than 64.0 KiB"));
  EXPECT_EQ(read_record_index((root_ / "gone").string(), nullptr).error().code, "XG0401");
}

TEST_F(RecordTexts, AListGivesTheLabelsOfAKey) {
  const auto list =
      RecordList::read(write("a.lst", "7\t3.000000\t0.5\tb c.jpg\n2\t16777217\t-1\td.jpg\n"), nullptr).value();
  EXPECT_EQ(list.labels(), 2);
  EXPECT_EQ(list.label(list.find(7), 0), 3);
  EXPECT_EQ(list.label(list.find(7), 1), 0.5);
  EXPECT_EQ(list.label(list.find(2), 0), 16'777'217) << "which f32 does not hold";
  EXPECT_EQ(list.find(3), -1);
  EXPECT_TRUE(RecordList::is_line("7\t3.000000\tb.jpg"));
  EXPECT_FALSE(RecordList::is_line("1\tfaces/a/1.jpg\t0")) << "InsightFace's own form";
  const auto refused = [&](const std::string& text) {
    const auto read = RecordList::read(write("a.lst", text), nullptr);
    EXPECT_FALSE(read.ok()) << text;
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_THAT(refused("1\t0\ta\n1\t0\tb\n"), HasSubstr("two lines have the key 1"));
  EXPECT_THAT(refused("1\t0\ta\n2\t0\t0\tb\n"), HasSubstr("a.lst:2 has 2 labels, but the lines before it have 1"));
  EXPECT_THAT(refused("1\tcat\ta\n"), HasSubstr("a.lst:1: the label `cat` is not a number"));
  EXPECT_THAT(refused("1\tnan\ta\n"), HasSubstr("not a number"));
  EXPECT_THAT(refused("1\ta\n"), HasSubstr("a.lst:1"));
}

TEST_F(RecordTexts, PropertyGivesTheNumberOfClasses) {
  EXPECT_EQ(read_property_classes(write("property", "85742,112,112\n5822653\n")).value(), 85'742);
  EXPECT_EQ(read_property_classes(write("property", "10, 112, 112")).value(), 10);
  EXPECT_THAT(read_property_classes(write("property", "a 1")).error().help, HasSubstr("classes="));
  EXPECT_FALSE(read_property_classes(write("property", "")).ok());
  EXPECT_FALSE(read_property_classes(write("property", "0,112,112")).ok());
}

}  // namespace
}  // namespace xrun::runtime
