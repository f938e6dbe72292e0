// The catalogue of diagnostics, messages.def, against the codes that the language gives.
#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <regex>
#include <set>

#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

struct MessageInfo {
  std::string_view code;   // "XG0103"
  std::string_view title;  // "a tab"
};

constexpr MessageInfo kMessages[] = {
#define XRUN_MESSAGE(code, title) {#code, title},
#include "tests/lang/messages.def"
#undef XRUN_MESSAGE
};

bool is_known(std::string_view code) {
  return std::ranges::any_of(kMessages, [&](const MessageInfo& message) { return message.code == code; });
}

TEST(Messages, CodesAreUniqueAndWellFormed) {
  std::set<std::string_view> seen;
  for (const MessageInfo& message : kMessages) {
    EXPECT_TRUE(seen.insert(message.code).second) << message.code;
    EXPECT_TRUE(std::regex_match(std::string(message.code), std::regex("XG0[0-9]{3}"))) << message.code;
    EXPECT_FALSE(message.title.empty()) << message.code;
    EXPECT_NE(message.title.back(), '.') << message.code;
  }
}

// How many times `pattern` finds a code in the file, each of which has to be known.
int expect_known_codes(const std::string& path, const std::regex& pattern) {
  const std::string text = test::read_source_file(path);
  int found = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    EXPECT_TRUE(is_known((*it)[1].str())) << (*it)[1] << " in " << path;
    ++found;
  }
  return found;
}

TEST(Messages, EveryCodeThatTheLanguageGivesIsInTheCatalogue) {
  const std::regex code("\"(XG[0-9]{4})\"");
  const std::filesystem::path room = std::filesystem::path(XRUN_SOURCE_DIR) / "lang";
  int found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(room)) {
    if (entry.path().extension() == ".cpp") {
      found += expect_known_codes("lang/" + std::filesystem::relative(entry.path(), room).string(), code);
    }
  }
  EXPECT_GT(found, 20);
  // What it passes on: the faults of operators' shapes, and of readers and stages.
  for (const char* path : {"graph/graph.cpp", "graph/reader_def.cpp", "ops/shape.cpp"}) {
    EXPECT_GT(expect_known_codes(path, code), 0) << path;
  }
}

TEST(Messages, EveryCodeOfAGoldenOfFaultsIsInTheCatalogue) {
  for (const std::string& name : test::golden_cases("check", ".txt")) {
    if (name.find("/fail_") == std::string::npos) {
      continue;
    }
    EXPECT_GT(expect_known_codes("tests/golden/" + name, std::regex("\\[(XG[0-9]{4})\\]")), 0) << name;
  }
}

// Diagnostics are made by `fault` and `warning` of lang/faults.h, which ask for the fix.
TEST(Messages, NoDiagnosticIsMadeWithoutItsFix) {
  const std::regex by_hand(R"(\.code = |Diagnostic [a-z_]*\{)");
  const std::filesystem::path room = std::filesystem::path(XRUN_SOURCE_DIR) / "lang";
  int makers = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(room)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") {
      continue;
    }
    const std::string text = test::read_source_file("lang/" + std::filesystem::relative(entry.path(), room).string());
    const bool is_maker = entry.path().filename() == "faults.cpp";
    EXPECT_EQ(std::regex_search(text, by_hand), is_maker) << entry.path();
    makers += is_maker ? 1 : 0;
  }
  EXPECT_EQ(makers, 1);
}

TEST(Messages, AnUnknownCodeIsNotFound) { EXPECT_FALSE(is_known("XG9999")); }

}  // namespace
}  // namespace xrun::lang
