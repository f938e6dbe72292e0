// Random words in random order: the parser ends, its spans are within the file, and every child in its trees exists.
#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "lang/syntax/parser.h"
#include "lang/syntax/print_syntax.h"
#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

constexpr std::array<std::string_view, 78> kWords = {
    "xgraph 1", "import",   "from",  "use",       "option",   "let",    "fn",     "pointwise", "optimizer", "block",
    "model",    "data",     "train", "cluster",   "schedule", "run",    "test",   "moved",     "extends",   "in",
    "input",    "output",   "head",  "param",     "state",    "return", "assert", "expect",    "source",    "true",
    "false",    "auto",     "none",  "and",       "or",       "not",    "if",     "else",      "repeat",    "residual",
    "fork",     "as",       "(",     ")",         "[",        "]",      "{",      "}",         ",",         ":",
    "->",       "=",        ".",     "..",        "...",      "+",      "-",      "*",         "/",         "//",
    "%",        "^",        "==",    "<",         "!=",       "\n",     "\n",     "x",         "N",         "16",
    "0.5",      "25Gbit/s", "10%",   "20 epochs", "\"s\"",    "$",      "## d\n", "\t"};

std::string soup(std::mt19937_64& random, int words) {
  std::string text = random() % 2 == 0 ? "xgraph 1\n" : "";
  for (int i = 0; i < words; ++i) {
    text += kWords[random() % kWords.size()];
    text += random() % 4 == 0 ? "" : " ";
  }
  return text;
}

// Returns an example with a few bytes changed, moved or removed. It reaches deeper parts of the grammar than random
// words.
std::string mutated(std::mt19937_64& random, std::string text) {
  for (uint64_t edits = 1 + random() % 4; edits > 0 && !text.empty(); --edits) {
    const size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text.erase(at, 1 + random() % 8);
        break;
      case 1:
        text.insert(at, kWords[random() % kWords.size()]);
        break;
      case 2:
        text[at] = static_cast<char>(random());
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 30));
        break;
    }
  }
  return text;
}

void expect_sound(const std::string& text) {
  SourceMap sources;
  Diagnostics diagnostics;
  const int32_t file = sources.add("soup.xgraph", text);
  const Ast ast = parse(sources, file, diagnostics);
  const auto inside = [&](const Span& span) {
    return !span.valid() || (span.begin <= span.end && span.end <= text.size());
  };
  for (const Expr& expr : ast.exprs) {
    ASSERT_TRUE(inside(expr.span)) << text;
  }
  for (const Stage& stage : ast.pool<Stage>()) {
    ASSERT_TRUE(inside(stage.span)) << text;
  }
  for (const Decl& decl : ast.decls) {
    ASSERT_TRUE(inside(decl.span)) << text;
  }
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    ASSERT_TRUE(inside(diagnostic.primary.span)) << text;
    ASSERT_FALSE(render(diagnostic, sources).empty());
  }
  const std::string printed = print_ast(ast);  // visits every node
  if (diagnostics.has_errors()) {
    return;
  }
  // A text that parses without a fault has no error nodes and reads back as itself.
  ASSERT_EQ(printed.find("<error>"), printed.npos) << text;
  SourceMap again;
  Diagnostics none;
  const Ast second = parse(again, again.add("printed.xgraph", printed), none);
  ASSERT_FALSE(none.has_errors()) << text << "\n--- printed\n" << printed << "\n" << none.all()[0].message;
  ASSERT_EQ(print_ast(second), printed);
}

TEST(ParseProperty, RandomTokensNeverBreakTheParser) {
  const uint64_t seed = 20'261'121;
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 4000; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    ASSERT_NO_FATAL_FAILURE(expect_sound(soup(random, 1 + static_cast<int>(random() % 60))));
  }
}

TEST(ParseProperty, DamagedExamplesNeverBreakTheParser) {
  const uint64_t seed = 7;
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const std::string& name : test::golden_cases("parse", ".xgraph")) {
    const std::string text = test::read_source_file("tests/golden/" + name);
    for (int i = 0; i < 300; ++i) {
      SCOPED_TRACE(name + ", seed " + std::to_string(seed) + ", case " + std::to_string(i));
      ASSERT_NO_FATAL_FAILURE(expect_sound(mutated(random, text)));
    }
  }
}

TEST(ParseProperty, EveryPrefixOfAnExampleIsReadToItsEnd) {
  const std::string text = test::read_source_file("tests/golden/parse/extensions.xgraph");
  for (size_t length = 0; length <= text.size(); ++length) {
    ASSERT_NO_FATAL_FAILURE(expect_sound(text.substr(0, length))) << length;
  }
}

}  // namespace
}  // namespace xrun::lang
