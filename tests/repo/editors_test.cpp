// The grammars of editors/ have all words of the language: words that the lexer reserves, words that begin a
// declaration, and words in quotes in the grammar of docs/reference/language.md.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "lang/text/token.h"

namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream in(fs::path(XRUN_SOURCE_DIR) / path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::set<std::string> words_in(const std::string& text, const std::string& pattern) {
  std::set<std::string> words;
  const std::regex quoted(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), quoted), end; it != end; ++it) {
    words.insert((*it)[1].str());
  }
  return words;
}

// Returns all words that have a meaning in the language.
std::set<std::string> words_of_language() {
  using namespace xrun::lang;
  const std::string page = text_of("docs/reference/language.md");
  const size_t begin = page.find("```ebnf");
  std::set<std::string> words = words_in(page.substr(begin, page.find("```\n", begin + 7) - begin), "\"([a-z]+)\"");
  for (TokenKind kind = TokenKind::kTrue; is_reserved(kind); kind = next(kind)) {
    words.emplace(text_of(kind));
  }
  return words;
}

TEST(Editors, TheTextMateGrammarHasTheWordsOfTheLanguage) {
  const std::string grammar = text_of("editors/vscode/syntaxes/xgraph.tmLanguage.json");
  // Finds the words in groups of alternatives: (import|from|...).
  const std::set<std::string> words = words_in(grammar, "[(|]([a-z]+)(?=[|)])");
  const std::set<std::string> language = words_of_language();
  EXPECT_GT(language.size(), 40u);
  for (const std::string& word : language) {
    EXPECT_TRUE(words.contains(word) || word == "xgraph") << word;
  }
}

TEST(Editors, TheTreeSitterGrammarHasTheWordsOfTheLanguageAndNoOthers) {
  std::string grammar = text_of("editors/tree-sitter-xgraph/grammar.js");
  grammar = std::regex_replace(grammar, std::regex("//[^\n]*|field\\(\"[a-z]+\"|name: \"[a-z]+\""), "");
  const std::set<std::string> words = words_in(grammar, "\"([a-z]+)\"");
  EXPECT_EQ(words, words_of_language());
}

TEST(Editors, TheQueriesColourEveryWordAndNoOthers) {
  std::string queries = text_of("editors/tree-sitter-xgraph/queries/highlights.scm");
  const std::set<std::string> words = words_in(queries, "\"([a-z]+)\"");
  std::set<std::string> language = words_of_language();
  for (const char* constant : {"true", "false", "auto", "none"}) {
    language.erase(constant);  // the queries colour them as constants
  }
  EXPECT_EQ(words, language);
}

// Every rule that the queries name must exist in the grammar.
TEST(Editors, TheQueriesNameRulesOfTheGrammar) {
  const std::set<std::string> rules =
      words_in(text_of("editors/tree-sitter-xgraph/grammar.js"), "\n    ([a-z_]+): \\(");
  EXPECT_GT(rules.size(), 30u);
  for (const std::string& named :
       words_in(text_of("editors/tree-sitter-xgraph/queries/highlights.scm"), "\\(([a-z_]+)")) {
    EXPECT_TRUE(rules.contains(named)) << named;
  }
}

}  // namespace
