// Files of tests/golden/parse: whole files parse without a diagnostic; each fail_* has its rendered diagnostics in a
// file next to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lang/syntax/parser.h"
#include "lang/syntax/print_syntax.h"
#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

std::string stem(const std::string& name) { return name.substr(0, name.rfind('.')); }

bool is_failing(const std::string& name) { return name.find("/fail_") != std::string::npos; }

std::string rendered(const Diagnostics& diagnostics, const SourceMap& sources) {
  std::string out;
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    out += (out.empty() ? "" : "\n") + render(diagnostic, sources);
  }
  return out;
}

struct Parsed {
  SourceMap sources;
  Diagnostics diagnostics;
  Ast ast;

  Parsed(const std::string& path, const std::string& text) {
    const int32_t file = sources.add(path, text);
    ast = parse(sources, file, diagnostics);
  }
};

TEST(ParseGolden, WorkedExamplesParseWithoutDiagnostics) {
  for (const std::string& name : test::golden_cases("parse", ".xgraph")) {
    if (!is_failing(name)) {
      const Parsed parsed(name, test::read_source_file("tests/golden/" + name));
      EXPECT_EQ(rendered(parsed.diagnostics, parsed.sources), "");
      EXPECT_GT(parsed.ast.decls.size(), 1U) << name;
    }
  }
}

TEST(ParseGolden, TreesPrintAsBefore) {
  for (const std::string& name : test::golden_cases("parse", ".ast")) {
    const Parsed parsed(name, test::read_source_file("tests/golden/" + stem(name) + ".xgraph"));
    EXPECT_TRUE(test::matches_golden(print_ast(parsed.ast), name));
  }
}

TEST(ParseGolden, PrintedTreesReadBackAsTheSameTree) {
  for (const std::string& name : test::golden_cases("parse", ".xgraph")) {
    if (!is_failing(name)) {
      const Parsed first(name, test::read_source_file("tests/golden/" + name));
      const std::string text = print_ast(first.ast);
      const Parsed second(name, text);
      EXPECT_EQ(rendered(second.diagnostics, second.sources), "") << text;
      EXPECT_EQ(test::diff_lines(text, print_ast(second.ast)), "") << name;
    }
  }
}

TEST(ParseGolden, FaultsAreExplained) {
  for (const std::string& name : test::golden_cases("parse", ".xgraph")) {
    if (is_failing(name)) {
      const std::string shown = name.substr(name.rfind('/') + 1);
      const Parsed parsed(shown, test::read_source_file("tests/golden/" + name));
      EXPECT_TRUE(parsed.diagnostics.has_errors()) << name;
      EXPECT_TRUE(test::matches_golden(rendered(parsed.diagnostics, parsed.sources), stem(name) + ".txt"));
    }
  }
}

}  // namespace
}  // namespace xrun::lang
