// Hostile files: deeply nested text is rejected with a diagnostic, and long text is read in linear time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/os/processor_time.h"
#include "lang/syntax/parser.h"
#include "lang/text/lexer.h"
#include "tests/support/sanitized.h"

namespace xrun::lang {
namespace {

std::string repeated(std::string_view piece, size_t count) {
  std::string out;
  out.reserve(piece.size() * count);
  for (size_t i = 0; i < count; ++i) {
    out += piece;
  }
  return out;
}

struct Case {
  std::string name;
  std::string before;
  std::string piece;
  std::string after;
};

std::string build(const Case& c, size_t bytes) {
  return c.before + repeated(c.piece, (bytes - c.before.size() - c.after.size()) / c.piece.size()) + c.after;
}

std::vector<Case> deep_cases() {
  const std::string let = "xgraph 1\nlet a = ";
  return {
      {"parentheses", let, "(", ""},
      {"lists", let, "[", ""},
      {"calls", let, "f(", ""},
      {"indices", let, "f[", ""},
      {"signs", let, "-", "1\n"},
      {"nots", let, "not ", "b\n"},
      {"powers", let, "2^", "2\n"},
      {"signed powers", let, "2^-", "2\n"},
      {"sums", let, "b + ", "c\n"},
      {"products", let, "b * ", "c\n"},
      {"ors", let, "b or ", "c\n"},
      {"fields", let + "b", ".c", "\n"},
      {"calls of calls", let + "b", "()", "\n"},
      {"else-ifs", let, "if a { b } else ", "c\n"},
      {"ifs", let, "if a { ", ""},
      {"conditions", let, "if if ", ""},
      {"residuals", let + "x -> ", "residual { ", ""},
      {"repeats", let + "x -> ", "repeat 2 { ", ""},
      {"forks", let + "x -> ", "fork { ", ""},
      {"stage ifs", let + "x -> ", "if a { ", ""},
      {"settings", "xgraph 1\ntrain t ", "{ a ", ""},
      {"types", "xgraph 1\nblock b(x: ", "f32(", ""},
      {"dims", "xgraph 1\nblock b(x: [", "(", ""},
      {"mixed", let, "([{f(-", ""},
  };
}

std::vector<Case> long_cases() {
  const std::string let = "xgraph 1\nlet a = ";
  const std::string body = "xgraph 1\nmodel m {\n";
  const size_t open = testing::kSanitized ? 4'000 : 1'000'000;  // less than the size of a text
  return {
      {"newlines", "xgraph 1\n", "\n", ""},
      {"spaces", "xgraph 1\nlet a = 1", " ", ""},
      {"comments", "xgraph 1\n", "#\n", "let a = 1\n"},
      {"documentation", "xgraph 1\n", "## a\n", "let a = 1\n"},
      {"one name", let, "a", "\n"},
      {"one number", let, "1", "\n"},
      {"one fraction", let + "0.", "1", "\n"},
      {"underscores", let, "1_", "\n"},
      {"hex", let + "0x", "F", "\n"},
      {"exponent", let + "1e", "9", "\n"},
      {"one string", let + "\"", "x", "\"\n"},
      {"escapes", let + "\"", "\\n", "\"\n"},
      {"bad escapes", let + "\"", "\\q", "\"\n"},
      {"open strings", "xgraph 1\n", "\"\n", ""},
      {"list", let + "[", "1,", "]\n"},
      {"list with units", let + "[", "1 epoch,", "]\n"},
      {"list of lists", let + "[", "[],", "]\n"},
      {"arguments", let + "f(", "k=1,", ")\n"},
      {"pipe", let + "x", "->f", "\n"},
      {"pipe of calls", let + "x", "->f(1)", "\n"},
      {"labels", let + "x", "->f as a", "\n"},
      {"forks side by side", let + "x", "->fork{a}", "\n"},
      {"bindings", body, "a=1\n", "}\n"},
      {"outputs", body, "output a\n", "}\n"},
      {"settings", "xgraph 1\ntrain t {\n", "a=1\n", "}\n"},
      {"groups", "xgraph 1\ntrain t {\n", "a{}\n", "}\n"},
      {"declarations", "xgraph 1\n", "let a=1\n", ""},
      {"models", "xgraph 1\n", "run{}\n", ""},
      {"unknown declarations", "xgraph 1\n", "x\n", ""},
      {"faults in a body", body, "=\n", "}\n"},
      {"bad signs", "xgraph 1\n", "$", ""},
      {"bad signs apart", "xgraph 1\n", "$ ", ""},
      {"bad bytes", "xgraph 1\n", "\xFF", ""},
      {"tabs", "xgraph 1\n", "\t", ""},
      {"zeros", "xgraph 1\n", std::string(1, '\0'), ""},
      {"closing", "xgraph 1\n", ")", ""},
      {"closing braces", "xgraph 1\n", "}", ""},
      {"open then close", "xgraph 1\n" + std::string(open, '('), ")", ""},
      {"wrong pairs", "xgraph 1\n" + std::string(open, '['), ")", ""},
      {"wrong pairs behind a brace", "xgraph 1\n({\n" + std::string(open, '['), ")", ""},
      {"braces then parentheses", "xgraph 1\n", "{(", ""},
      {"single quotes", "xgraph 1\n", "'", ""},
      {"single quotes on lines", "xgraph 1\n", "'\n", ""},
      {"dots", let + "b", ".", ""},
      {"dotted digits", "xgraph 1\n", ".1", ""},
      {"upper-case names", body, "A=1\n", "}\n"},
      {"unclosed models", "xgraph 1\n", "model m {\n", ""},
  };
}

struct Outcome {
  double seconds = 0;  // processor time, which does not count other processes
  Diagnostics diagnostics;
};

Outcome parse_text(std::string text) {
  SourceMap sources;
  Outcome out;
  const int32_t file = sources.add("hostile.xgraph", std::move(text));
  const double start = thread_processor_time();
  const Ast ast = parse(sources, file, out.diagnostics);
  out.seconds = thread_processor_time() - start;
  return out;
}

TEST(ParserLimits, DeeplyNestedTextsAreRejectedWithADiagnostic) {
  for (const Case& c : deep_cases()) {
    const Outcome out = parse_text(build(c, 100'000));
    bool refused = false;
    for (const Diagnostic& diagnostic : out.diagnostics.all()) {
      refused = refused || diagnostic.code == "XG0106" || diagnostic.code == "XG0111";
    }
    EXPECT_TRUE(refused || c.name == "conditions") << c.name;  // `if if` is invalid at any depth
    EXPECT_TRUE(out.diagnostics.has_errors()) << c.name;
  }
}

TEST(ParserLimits, TextsJustBelowTheLimitAreRead) {
  for (const int n : {kMaxNesting - 4, kMaxNesting + 4}) {
    const auto count = static_cast<size_t>(n);
    const bool fits = n < kMaxNesting;
    const std::string let = "xgraph 1\nlet a = ";
    for (const std::string& text : {let + repeated("(", count) + "1" + repeated(")", count),
                                    let + repeated("-", count) + "1", let + repeated("2^", count) + "1",
                                    let + "x -> " + repeated("residual { ", count) + "f" + repeated(" }", count),
                                    let + repeated("if a { b } else ", count) + "c"}) {
      EXPECT_EQ(parse_text(text + "\n").diagnostics.all().empty(), fits) << text;
    }
  }
  EXPECT_TRUE(parse_text("xgraph 1\nlet a = " + repeated("b + ", kMaxHeight - 2) + "c\n").diagnostics.all().empty());
  EXPECT_EQ(parse_text("xgraph 1\nlet a = " + repeated("b + ", kMaxHeight) + "c\n").diagnostics.all().size(), 1U);
}

TEST(ParserLimits, EverythingIsReadInLinearTime) {
  // A quadratic step would take minutes. All cases together take about 23 s; ThreadSanitizer makes the parser a hundred
  // times slower.
  constexpr double kBound = 20;
  constexpr size_t kBytes = kMaxFileBytes / (testing::kSanitized ? 256 : 4);
  std::vector<Case> all = long_cases();
  for (Case& c : deep_cases()) {
    all.push_back(std::move(c));
  }
  for (const Case& c : all) {
    const Outcome out = parse_text(build(c, kBytes));
    EXPECT_LT(out.seconds, kBound) << c.name;
    EXPECT_LE(out.diagnostics.all().size(), 200U) << c.name;
  }
}

TEST(ParserLimits, FilesOfTheLargestSizeAreRead) {
  for (const Case& c :
       {Case{"list", "xgraph 1\nlet a = [", "1,", "]\n"}, Case{"bindings", "xgraph 1\nmodel m {\n", "a=1\n", "}\n"},
        Case{"pipe", "xgraph 1\nlet a = x", "->f", "\n"}}) {
    const Outcome out = parse_text(build(c, kMaxFileBytes));
    EXPECT_TRUE(out.diagnostics.all().empty()) << c.name;
    RecordProperty(c.name + "_ms", static_cast<int>(1000 * out.seconds));
  }
}

}  // namespace
}  // namespace xrun::lang
