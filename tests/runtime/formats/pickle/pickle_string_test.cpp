#include "runtime/formats/pickle/pickle_string.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xrun::runtime {
namespace {

using std::string_literals::operator""s;
using enum PickleCoding;

// The decoded bytes, or "refused".
std::string bytes_of(PickleCoding coding, std::string stored) {
  const auto size = decode_pickle_bytes(coding, std::as_writable_bytes(std::span(stored)));
  return size ? stored.substr(0, *size) : "refused";
}

Result<std::string> text_of(PickleCoding coding, const std::string& stored, Bytes most = kMostPickleText) {
  const auto input = pickle_in_memory("t.pkl", std::as_bytes(std::span(stored)));
  return read_pickle_text(*input, {.offset = 0, .size = std::ssize(stored), .coding = coding}, most);
}

TEST(PickleStrings, EachFormGivesItsBytes) {
  EXPECT_EQ(bytes_of(kRaw, "\\x00\xff"), "\\x00\xff");
  EXPECT_EQ(bytes_of(kUtf8, "a\xc3\xbf\xc2\x80\0"s), "a\xff\x80\0"s);
  EXPECT_EQ(bytes_of(kEscaped, "\\x00\\xfF\\n\\t\\r\\\\\\'\\\"\\a\\b\\f\\v"), "\0\xff\n\t\r\\'\"\a\b\f\v"s);
  EXPECT_EQ(bytes_of(kEscaped, "\\0\\18\\1234\\q"),
            "\0\1"
            "8S4\\q"s);
  EXPECT_EQ(bytes_of(kUnicodeEscaped, "a\xff\\u00fe\\U000000fd\\x41\\\\u0041\\"), "a\xff\xfe\xfd\\x41\\\\u0041\\");
}

TEST(PickleStrings, TextThatIsNotBytesIsRefused) {
  EXPECT_EQ(bytes_of(kUtf8, "\xc4\x80"), "refused") << "U+0100";
  EXPECT_EQ(bytes_of(kUtf8, "a\xc3"), "refused");
  EXPECT_EQ(bytes_of(kUtf8, "\xff"), "refused");
  EXPECT_EQ(bytes_of(kUtf8, "\xc0\x80"), "refused") << "a zero in two bytes";
  EXPECT_EQ(bytes_of(kEscaped, "a\\"), "refused");
  EXPECT_EQ(bytes_of(kEscaped, "\\x4"), "refused");
  EXPECT_EQ(bytes_of(kEscaped, "\\x-1"), "refused");
  EXPECT_EQ(bytes_of(kUnicodeEscaped, "\\u0100"), "refused");
  EXPECT_EQ(bytes_of(kUnicodeEscaped, "\\u00"), "refused");
  EXPECT_EQ(bytes_of(kUnicodeEscaped, "\\U00110000"), "refused");
}

// All bytes, in the form that Python gives them: repr of Python 2, and text of latin-1.
TEST(PickleStrings, AllBytesComeBack) {
  std::string all, escaped, utf8, unicode;
  for (int i = 0; i < 256; ++i) {
    const auto byte = static_cast<char>(i);
    all += byte;
    escaped += fmt::format("\\x{:02x}", i);
    utf8 += i < 128 ? std::string(1, byte)
                    : std::string{static_cast<char>(0xC0 | i >> 6), static_cast<char>(0x80 | (i & 0x3F))};
    unicode += fmt::format("\\u{:04x}", i);
  }
  EXPECT_EQ(bytes_of(kRaw, all), all);
  EXPECT_EQ(bytes_of(kEscaped, escaped), all);
  EXPECT_EQ(bytes_of(kUtf8, utf8), all);
  EXPECT_EQ(bytes_of(kUnicodeEscaped, unicode), all);
}

TEST(PickleStrings, TextIsReadAsUtf8) {
  EXPECT_EQ(text_of(kUtf8, "\u4e2d\\u0041").value(), "\u4e2d\\u0041");
  EXPECT_EQ(text_of(kUnicodeEscaped, "\xe9\\u4e2d\\U0001f600").value(), "\u00e9\u4e2d\U0001f600");
  EXPECT_EQ(text_of(kEscaped, "a\\x62").value(), "ab");
  EXPECT_EQ(text_of(kRaw, "plain").value(), "plain");
  EXPECT_EQ(text_of(kUnicodeEscaped, "\\u12").error().code, "XG0412");
  const auto longer = text_of(kRaw, "12345", 4);
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().message, "t.pkl: offset 0: a name is 5 B long; at most 4 B are read");
}

}  // namespace
}  // namespace xrun::runtime
