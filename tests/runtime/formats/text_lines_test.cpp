#include "runtime/formats/text_lines.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using TextLines = testing::Files;

// Each line as "number@offset text".
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  const Status read = visit_lines(path, 200'000, nullptr, [&](const TextLine& line) -> Status {
    lines.push_back(fmt::format("{}@{} {}", line.number, line.offset, line.text));
    return {};
  });
  EXPECT_TRUE(read.ok()) << read.error().message;
  return lines;
}

TEST_F(TextLines, LinesHaveTheirPlaceInTheFile) {
  EXPECT_THAT(lines_of(write("a", "ab\n\ncd\r\ne")), ElementsAre("1@0 ab", "3@4 cd", "4@8 e"));
  EXPECT_THAT(lines_of(write("a", "\xEF\xBB\xBFx\ny\n")), ElementsAre("1@3 x", "2@5 y"));
  EXPECT_TRUE(lines_of(write("a", "")).empty());
  EXPECT_TRUE(lines_of(write("a", "\n\n")).empty());
  EXPECT_EQ(first_line(write("a", "\n\nx\ny"), 100).value(), "x");
  EXPECT_EQ(first_line(write("a", ""), 100).value(), "");
}

// Lines that end before, at and after the blocks in which the file is read.
TEST_F(TextLines, LinesAreTheSameWhereverBlocksEnd) {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 random(seed);
  std::string text;
  std::vector<std::string> wanted;
  for (int64_t number = 1; number <= 200; ++number) {
    const std::string line(1 + random() % (number % 20 == 0 ? 130'000 : 2'000), static_cast<char>('a' + number % 26));
    wanted.push_back(fmt::format("{}@{} {}", number, text.size(), line));
    text += line + "\n";
  }
  EXPECT_TRUE(lines_of(write("a", text)) == wanted) << "seed " << seed;
}

TEST_F(TextLines, FaultsEndTheVisit) {
  const auto error_of = [&](const std::string& path) {
    const Status read = visit_lines(path, 100, nullptr, [](const TextLine&) { return Status(); });
    EXPECT_FALSE(read.ok());
    return read.ok() ? Error() : read.error();
  };
  EXPECT_THAT(error_of(write("a", "x\n" + std::string(101, 'y'))).message, HasSubstr("a:2: a line of more than 100 B"));
  EXPECT_EQ(error_of(write("a", "x\n" + std::string(70'000, 'y'))).code, "XG0412");
  EXPECT_EQ(error_of((root_ / "gone").string()).code, "XG0401");
  const std::atomic<bool> stopped = true;
  EXPECT_EQ(visit_lines(write("a", "x"), 10, &stopped, [](const TextLine&) { return Status(); }).error().kind,
            ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace xrun::runtime
