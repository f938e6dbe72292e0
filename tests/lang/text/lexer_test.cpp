#include "lang/text/lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lang/syntax/print_syntax.h"

namespace xrun::lang {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Lexed {
  SourceMap sources;
  Diagnostics diagnostics;
  Tokens tokens;

  explicit Lexed(std::string text) {
    const int32_t file = sources.add("a.xgraph", std::move(text));
    Faults faults(diagnostics);
    tokens = lex(sources, file, faults);
    faults.flush();
  }

  // Returns the spellings of the tokens, with "|" for each newline that ends a statement.
  std::vector<std::string> words() const {
    std::vector<std::string> out;
    for (const Token& token : tokens.tokens) {
      if (token.kind != TokenKind::kEnd) {
        out.emplace_back(token.kind == TokenKind::kNewline ? "|" : std::string(tokens.spelling(token)));
      }
    }
    return out;
  }

  // Returns "code@text" for each diagnostic.
  std::vector<std::string> faults() const {
    std::vector<std::string> out;
    for (const Diagnostic& d : diagnostics.all()) {
      out.push_back(d.code + "@" + std::string(sources.text(d.primary.span)));
    }
    return out;
  }
};

TEST(Lexer, NewlinesEndStatementsAtTopLevelAndInBraces) {
  EXPECT_THAT(Lexed("a\nb {\n\n c\n}\n").words(), ElementsAre("a", "|", "b", "{", "|", "c", "|", "}", "|"));
}

TEST(Lexer, NewlinesAreIgnoredInParenthesesAndBrackets) {
  EXPECT_THAT(Lexed("f(a,\n b\n)\n[1\n, 2]\n").words(),
              ElementsAre("f", "(", "a", ",", "b", ")", "|", "[", "1", ",", "2", "]", "|"));
}

TEST(Lexer, NewlinesEndStatementsInBracesInsideParentheses) {
  EXPECT_THAT(Lexed("(a -> if c {\nb\n})\n").words(),
              ElementsAre("(", "a", "->", "if", "c", "{", "|", "b", "|", "}", ")", "|"));
}

TEST(Lexer, LinesContinueAroundArrowsAndAfterOperators) {
  EXPECT_THAT(Lexed("x\n  -> a\n  # a comment\n\n  -> b ->\n c\n").words(),
              ElementsAre("x", "->", "a", "->", "b", "->", "c", "|"));
  for (const std::string sign :
       {"=", ",", "+", "-", "*", "/", "//", "%", "^", "==", "!=", "<", "<=", ">", ">=", "..", "and", "or"}) {
    EXPECT_THAT(Lexed("x " + sign + "\ny\n").words(), ElementsAre("x", sign, "y", "|")) << sign;
  }
  EXPECT_THAT(Lexed("x\n+ y\n").words(), ElementsAre("x", "|", "+", "y", "|"));
}

TEST(Lexer, ADeclarationIsNeverAContinuation) {
  EXPECT_THAT(Lexed("x =\nmodel m {\n").words(), ElementsAre("x", "=", "|", "model", "m", "{", "|"));
}

TEST(Lexer, RangesAndEllipsesAreSingleTokens) {
  const Lexed lexed("0..10 0.5..1.5 [N, ...]");
  EXPECT_THAT(lexed.words(), ElementsAre("0", "..", "10", "0.5", "..", "1.5", "[", "N", ",", "...", "]"));
  EXPECT_THAT(lexed.faults(), IsEmpty());
}

TEST(Lexer, ReservedWordsAreNotNames) {
  const Lexed lexed("true false auto none and or not if else repeat residual fork as train from model");
  int reserved = 0;
  for (const Token& token : lexed.tokens.tokens) {
    reserved += is_reserved(token.kind) ? 1 : 0;
  }
  EXPECT_EQ(reserved, 13);
  EXPECT_EQ(lexed.tokens.tokens[13].kind, TokenKind::kName);
}

TEST(Lexer, StringsAreDecoded) {
  const Lexed lexed(R"("a\n\t\\\"\u{4E00}\u{1F600}" "")");
  EXPECT_THAT(lexed.faults(), IsEmpty());
  EXPECT_THAT(lexed.tokens.strings, ElementsAre("a\n\t\\\"\u4E00\U0001F600", ""));
}

TEST(Lexer, ReportsFaultsOfStrings) {
  EXPECT_THAT(Lexed("x = \"abc\ny = 1\n").faults(), ElementsAre("XG0104@\"abc"));
  EXPECT_THAT(Lexed(R"("\q" "\u{D800}" "\u{}" "\u{1234567}")").faults(),
              ElementsAre("XG0104@\\q", "XG0104@\\u{D800", "XG0104@\\u{", "XG0104@\\u{1234567"));
  EXPECT_THAT(Lexed("\"\\").faults(), ElementsAre("XG0104@\"\\", "XG0104@\\"));
}

TEST(Lexer, AnUnclosedStringEndsWithItsLine) {
  // A carriage return before a line feed, or at the end of the file, does not belong to the line.
  for (const char* text : {"\"abc", "\"abc\n", "\"abc\r\n", "\"abc\r"}) {
    const Lexed lexed(text);
    const Diagnostic& fault = lexed.diagnostics.all()[0];
    EXPECT_EQ(fault.code, "XG0104") << text;
    EXPECT_EQ(fault.fixes[0].edits[0].span.begin, 4U) << text;
    EXPECT_NE(render(fault, lexed.sources).find("1 ~ \"abc\"\n"), std::string::npos) << render(fault, lexed.sources);
  }
}

TEST(Lexer, CommentsAreKeptSeparateFromTokens) {
  const Lexed lexed("# one\n## two\nx # three");
  EXPECT_THAT(lexed.words(), ElementsAre("x"));
  ASSERT_EQ(lexed.tokens.comments.size(), 3U);
  EXPECT_FALSE(lexed.tokens.comments[0].is_doc);
  EXPECT_TRUE(lexed.tokens.comments[1].is_doc);
}

TEST(Lexer, ReportsStrangeCharactersOnceEach) {
  EXPECT_THAT(Lexed("a; b").faults(), ElementsAre("XG0102@;"));
  EXPECT_THAT(Lexed("a @@@$$ b").faults(), ElementsAre("XG0102@@"));
  EXPECT_THAT(Lexed("a \u2192 b").faults(), ElementsAre("XG0102@\u2192"));
  EXPECT_THAT(Lexed("a && b || !c ** 2").faults(), ElementsAre("XG0102@&&", "XG0102@||", "XG0102@!", "XG0102@**"));
  EXPECT_THAT(Lexed("\u4E00 = 1").faults(), ElementsAre("XG0102@\u4E00"));
  EXPECT_THAT(Lexed(std::string("a\0b", 3)).faults(), ElementsAre(std::string("XG0102@\0", 8)));
  EXPECT_THAT(Lexed("a \xFF b").faults(), ElementsAre("XG0102@\xFF"));
  EXPECT_THAT(Lexed("# \xC3(\n\"\xE4\xB8\"").faults(), ElementsAre("XG0102@\xC3"));  // reported once per file
  EXPECT_THAT(Lexed("\xEF\xBB\xBFx").faults(), ElementsAre("XG0102@\xEF\xBB\xBF"));
}

TEST(Lexer, AStringInOtherQuotesIsOneFaultWithAnEdit) {
  for (const char* text : {"'ab'", "`ab`", "\u201Cab\u201D", "\u2018ab\u2019", "\u201Eab\u201C"}) {
    const Lexed lexed(text);
    EXPECT_THAT(lexed.faults(), ElementsAre("XG0102@" + std::string(text)));
    EXPECT_EQ(lexed.diagnostics.all()[0].fixes[0].edits[0].text, "\"ab\"");
  }
}

TEST(Lexer, ControlCharactersInStringsAreRejected) {
  EXPECT_THAT(Lexed("\"a\x1B[1m\"").faults(), ElementsAre("XG0102@\x1B"));
  EXPECT_EQ(Lexed("\"a\x1B\"").diagnostics.all()[0].fixes[0].edits[0].text, "\\u{1B}");
  // C functions would cut a path off at a zero byte.
  EXPECT_THAT(Lexed(std::string("\"a\0b\"", 5)).faults(), ElementsAre(std::string("XG0102@\0", 8)));
  EXPECT_THAT(Lexed("\"a\\u{0}b\"").faults(), ElementsAre("XG0104@\\u{0}"));
  EXPECT_EQ(Lexed("\"a\\u{0}b\"").tokens.strings[0], "ab");
}

TEST(Lexer, InvalidUtf8IsReportedOnceWithTheNumberOfBytes) {
  const Lexed lexed("## caf\xE9\nx = 1  # na\xEFve\n");
  EXPECT_THAT(lexed.faults(), ElementsAre("XG0102@\xE9"));
  EXPECT_THAT(lexed.diagnostics.all()[0].notes, ElementsAre("the file has 2 such bytes"));
}

TEST(Lexer, ADotAfterABracketStartsANumber) {
  EXPECT_THAT(Lexed("f(.5)").faults(), ElementsAre("XG0105@."));
  EXPECT_THAT(Lexed("[1, .5]").faults(), ElementsAre("XG0105@."));
  EXPECT_THAT(Lexed("x=.5").faults(), ElementsAre("XG0105@."));
}

TEST(Lexer, CountsTabsAndCarriageReturns) {
  const Lexed lexed("a\tb\t\tc\r\nd\r\n");
  EXPECT_THAT(lexed.faults(), ElementsAre("XG0103@\t", "XG0102@\r"));
  EXPECT_EQ(lexed.diagnostics.all()[0].fixes[0].title, "write two spaces for each of the 3 tabs of the file");
  EXPECT_THAT(lexed.words(), ElementsAre("a", "b", "c", "|", "d", "|"));
}

TEST(Lexer, CountsCarriageReturnsAfterComments) {
  const Lexed lexed("a # note \r\n# more\r\nb\r\n");
  EXPECT_THAT(lexed.faults(), ElementsAre("XG0102@\r"));
  EXPECT_THAT(lexed.diagnostics.all()[0].notes, ElementsAre("the file has 3 such lines"));
}

TEST(Lexer, AnOpenParenthesisAffectsOnlyItsOwnStatement) {
  const Lexed lexed("m {\n x = f(a, b\n y = g(c)\n}\n");
  EXPECT_THAT(lexed.faults(), ElementsAre("XG0111@("));
  EXPECT_THAT(lexed.words(), ElementsAre("m", "{", "|", "x", "=", "f", "(", "a", ",", "b", "|", "y", "=", "g", "(", "c",
                                         ")", "|", "}", "|"));
}

TEST(Lexer, ADeclarationInColumnOneClosesOpenBrackets) {
  EXPECT_THAT(Lexed("let x = f(a\nlet y = [1\nmodel m {\n}\n").faults(), ElementsAre("XG0111@(", "XG0111@["));
}

TEST(Lexer, ReportsBracketsThatCloseNothing) {
  EXPECT_THAT(Lexed("a)\nb]\n}\n").faults(), ElementsAre("XG0111@)", "XG0111@]", "XG0111@}"));
  EXPECT_THAT(Lexed("(a]\n").faults(), ElementsAre("XG0111@(", "XG0111@]"));
}

TEST(Lexer, AFileThatIsTooLargeIsRejected) {
  const Lexed lexed(std::string((4u << 20) + 1, ' '));
  ASSERT_EQ(lexed.diagnostics.all().size(), 1U);
  EXPECT_EQ(lexed.diagnostics.all()[0].code, "XG0101");
  EXPECT_EQ(lexed.tokens.tokens.size(), 1U);
}

TEST(Lexer, AtMostAHundredFaultsAreReported) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += "$ ";
  }
  const Lexed lexed(text);
  EXPECT_EQ(lexed.diagnostics.error_count(), Faults::kMaxErrors);
  EXPECT_THAT(lexed.diagnostics.all().back().notes, ElementsAre(testing::HasSubstr("further ones are not shown")));
}

TEST(PrintTokens, GivesPlaceKindAndSpelling) {
  SourceMap sources;
  Diagnostics diagnostics;
  const int32_t file = sources.add("a.xgraph", "let w = 25Gbit/s\n\"\u4E00\" as x");
  EXPECT_EQ(print_tokens(sources, file, diagnostics),
            "1:1 name let\n1:5 name w\n1:7 sign =\n1:9 number 25Gbit/s\n1:17 newline\n2:1 string \"\u4E00\"\n2:5 word "
            "as\n2:8 name x\n2:9 end\n");
}

}  // namespace
}  // namespace xrun::lang
