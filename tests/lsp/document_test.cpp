#include "runtime/lsp/document.h"

#include <gtest/gtest.h>

#include "runtime/lsp/workspace.h"

namespace xrun::lsp {
namespace {

Json at(int line, int character) { return {{"line", line}, {"character", character}}; }

TEST(LineMap, CountsInUtf16CodeUnits) {
  const std::string text = "a\u00e9\U0001F600b\r\nc\rd\n";
  const LineMap lines(text);
  EXPECT_EQ(lines.lines(), 4u);
  EXPECT_EQ(lines.position(0), at(0, 0));
  EXPECT_EQ(lines.position(1), at(0, 1));
  EXPECT_EQ(lines.position(3), at(0, 2));  // after the two bytes of é
  EXPECT_EQ(lines.position(7), at(0, 4));  // after a surrogate pair
  EXPECT_EQ(lines.position(5), at(0, 2));  // within the surrogate pair
  EXPECT_EQ(lines.position(10), at(1, 0));
  EXPECT_EQ(lines.position(12), at(2, 0));
  EXPECT_EQ(lines.position(99), at(3, 0));
}

TEST(LineMap, OffsetsAndPositionsAgree) {
  const std::string text = "x\u4e2d\U0001F600\n\n\u00e9y\r\nz";
  const LineMap lines(text);
  for (uint32_t i = 0; i <= text.size(); ++i) {
    const bool inside = i < text.size() && (text[i] & 0xC0) == 0x80;
    const bool in_break = i > 0 && i < text.size() && text[i - 1] == '\r' && text[i] == '\n';
    if (!inside && !in_break) {
      EXPECT_EQ(lines.offset(lines.position(i)), i);
    }
  }
  EXPECT_EQ(lines.offset(at(0, 3)), 4u) << "the middle of a pair is its start";
  EXPECT_EQ(lines.offset(at(0, 1000)), 8u) << "a character behind the line is its end";
  EXPECT_EQ(lines.offset(at(4, 5)), text.size()) << "the line behind the last is the end";
  EXPECT_THROW(lines.offset(at(5, 0)), Failure);
}

TEST(Changed, AppliesChangesOneAfterTheOther) {
  const Json changes = Json::parse(R"([
    {"range": {"start": {"line": 0, "character": 1}, "end": {"line": 1, "character": 0}}, "text": "Z"},
    {"range": {"start": {"line": 0, "character": 3}, "end": {"line": 0, "character": 3}}, "text": "!"}])");
  EXPECT_EQ(changed("ab\ncd", changes), "aZc!d");
  EXPECT_EQ(changed("ab", Json::parse(R"([{"text": "x"}])")), "x");
}

TEST(Paths, AreDecodedFromUrisAndEncodedBack) {
  EXPECT_EQ(path_of("file:///a/b%20c/%E4%B8%AD.xgraph"), "/a/b c/\u4e2d.xgraph");
  EXPECT_EQ(path_of("file://localhost/a/../b"), "/b");
  EXPECT_EQ(path_of("untitled:Untitled-1"), "untitled:Untitled-1");
  EXPECT_EQ(path_of("file:///%zz%4"), "/%zz%4");
  EXPECT_EQ(file_uri("/a/b c/\u4e2d.xgraph"), "file:///a/b%20c/%E4%B8%AD.xgraph");
}

}  // namespace
}  // namespace xrun::lsp
