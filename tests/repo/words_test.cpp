// Comments and test names are sentences or noun phrases with a subject of their own (CONTRIBUTING.md, "Style"). These
// tests find openings that leave the subject out.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <string>

namespace {

namespace fs = std::filesystem;

// Calls visit(path, number, line) for each line of our sources.
template <class Visit>
void for_each_line(const Visit& visit) {
  for (const char* top : {"graph", "lang", "ops", "planner", "runtime", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(XRUN_SOURCE_DIR) / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") {
        continue;
      }
      std::ifstream in(entry.path());
      int number = 0;
      for (std::string line; std::getline(in, line);) {
        visit(entry.path().lexically_relative(XRUN_SOURCE_DIR).string(), ++number, line);
      }
    }
  }
}

TEST(Words, CommentsOpenWithTheirSubjects) {
  const std::regex opening(R"(^\s*// (What|Who|Of|By|As|The same)\b)");
  std::string before;
  for_each_line([&](const std::string& path, int number, const std::string& line) {
    const bool continues = before.find("//") != std::string::npos;  // a word of the sentence in the line before
    EXPECT_TRUE(continues || !std::regex_search(line, opening)) << path << ":" << number << ": " << line;
    before = line;
  });
}

TEST(Words, CommentsAfterCodeAreNounPhrases) {
  const std::regex fragment(R"([^\s/:]\s+// (of|by|as) )");
  for_each_line([&](const std::string& path, int number, const std::string& line) {
    EXPECT_FALSE(std::regex_search(line, fragment)) << path << ":" << number << ": " << line;
  });
}

TEST(Words, TestNamesOpenWithTheirSubjects) {
  const std::regex fragment(R"(^TEST(_F|_P)?\(\w+, (What|Who|Of|By|As|TheSame)[A-Z])");
  for_each_line([&](const std::string& path, int number, const std::string& line) {
    EXPECT_FALSE(std::regex_search(line, fragment)) << path << ":" << number << ": " << line;
  });
}

}  // namespace
