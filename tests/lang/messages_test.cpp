#include "lang/messages.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <regex>
#include <set>

#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

TEST(Messages, CodesAreUniqueAndWellFormed) {
  std::set<std::string_view> seen;
  for (const MessageInfo& message : all_messages()) {
    EXPECT_TRUE(seen.insert(message.code).second) << message.code;
    EXPECT_TRUE(std::regex_match(std::string(message.code), std::regex("XG0[0-9]{3}"))) << message.code;
    EXPECT_FALSE(message.title.empty()) << message.code;
    EXPECT_NE(message.title.back(), '.') << message.code;
  }
}

TEST(Messages, EveryCodeThatTheLanguageGivesIsInTheCatalogue) {
  const std::regex code("\"(XG[0-9]{4})\"");
  const std::filesystem::path room = std::filesystem::path(XRUN_SOURCE_DIR) / "lang";
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(room)) {
    if (entry.path().extension() != ".cpp") {
      continue;
    }
    const std::string text = test::read_source_file("lang/" + entry.path().filename().string());
    for (std::sregex_iterator it(text.begin(), text.end(), code), end; it != end; ++it) {
      EXPECT_TRUE(find_message((*it)[1].str()).has_value()) << (*it)[1] << " in " << entry.path();
      ++found;
    }
  }
  EXPECT_GT(found, 20);
}

// Diagnostics are made by `fault` and `warning` of lang/faults.h, which ask for the mend.
TEST(Messages, NoDiagnosticIsMadeWithoutItsMend) {
  const std::regex by_hand(R"(\.code = |Diagnostic [a-z_]*\{)");
  const std::filesystem::path room = std::filesystem::path(XRUN_SOURCE_DIR) / "lang";
  int makers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(room)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") {
      continue;
    }
    const std::string text = test::read_source_file("lang/" + entry.path().filename().string());
    const bool is_maker = entry.path().filename() == "faults.cpp";
    EXPECT_EQ(std::regex_search(text, by_hand), is_maker) << entry.path();
    makers += is_maker ? 1 : 0;
  }
  EXPECT_EQ(makers, 1);
}

TEST(Messages, AnUnknownCodeIsNotFound) { EXPECT_FALSE(find_message("XG9999").has_value()); }

}  // namespace
}  // namespace xrun::lang
