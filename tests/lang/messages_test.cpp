// The pages of codes: each example gives its code. Every diagnostic of the language has a fix.
#include <filesystem>
#include <gtest/gtest.h>
#include <regex>
#include <set>

#include "graph/base/codes.h"
#include "lang/format/format.h"
#include "lang/frontend.h"
#include "ops/norm/norm_numbers.h"
#include "ops/op.h"
#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

struct Answer {
  std::set<std::string> codes;
  std::string text;
};

// Returns all diagnostics that `check` reports for a text, including those for features that this version lacks.
Answer check(std::string_view text) {
  SourceMap sources;
  Diagnostics diagnostics;
  const auto file = check_text("example.xgraph", std::string(text), sources, diagnostics,
                               {.ops = &ops::registry(), .norm_of = ops::norm_group});
  std::vector<Diagnostic> all = diagnostics.all();
  if (file) {
    all.insert(all.end(), file->module.not_yet.begin(), file->module.not_yet.end());
  }
  Answer answer;
  for (const Diagnostic& diagnostic : all) {
    answer.codes.insert(diagnostic.code);
    answer.text += render(diagnostic, sources);
  }
  return answer;
}

TEST(Messages, WrongExamplesGiveOnlyTheirCodeAndCorrectedOnesNone) {
  int examples = 0;
  for (const CodePage& page : code_pages()) {
    EXPECT_EQ(page.wrong.empty(), page.right.empty()) << page.code;
    if (page.wrong.empty()) {
      continue;
    }
    const Answer wrong = check(page.wrong);
    EXPECT_EQ(wrong.codes, std::set<std::string>{std::string(page.code)}) << page.code << "\n" << wrong.text;
    const Answer right = check(page.right);
    EXPECT_EQ(right.text, "") << page.code;
    SourceMap sources;
    Diagnostics diagnostics;
    EXPECT_EQ(format("example.xgraph", page.right, sources, diagnostics), std::string(page.right)) << page.code;
    ++examples;
  }
  EXPECT_GT(examples, 60);
}

// Every code of the language can be shown by an example text, except codes of files, of flags and of `--strict`.
TEST(Messages, CodesOfTheLanguageHaveExamples) {
  const std::set<std::string_view> without{"XG0101", "XG0225"};
  const std::regex pattern("\"(XG0[1-5][0-9]{2})\"");
  const std::filesystem::path folder = std::filesystem::path(XRUN_SOURCE_DIR) / "lang";
  int found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp") {
      continue;
    }
    const std::string text = test::read_source_file("lang/" + std::filesystem::relative(entry.path(), folder).string());
    for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
      const std::string code = (*it)[1].str();
      const auto page = find_code(code);
      ASSERT_TRUE(page) << code;
      EXPECT_NE(page->wrong.empty(), !without.contains(code)) << code;
      ++found;
    }
  }
  EXPECT_GT(found, 100);
}

// Diagnostics are made by `fault` and `warning` of lang/text/faults.h, which require a fix.
TEST(Messages, NoDiagnosticIsMadeWithoutItsFix) {
  const std::regex by_hand(R"(\.code = |Diagnostic [a-z_]*\{)");
  const std::filesystem::path folder = std::filesystem::path(XRUN_SOURCE_DIR) / "lang";
  int makers = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") {
      continue;
    }
    const std::string text = test::read_source_file("lang/" + std::filesystem::relative(entry.path(), folder).string());
    const bool is_maker = entry.path().filename() == "faults.cpp";
    EXPECT_EQ(std::regex_search(text, by_hand), is_maker) << entry.path();
    makers += is_maker ? 1 : 0;
  }
  EXPECT_EQ(makers, 1);
}

}  // namespace
}  // namespace xrun::lang
