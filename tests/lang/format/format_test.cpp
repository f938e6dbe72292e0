// The canonical layout: golden files, single rules, and properties that hold for every file of the repository and for
// random layouts of it.
#include "lang/format/format.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <random>

#include "lang/text/lexer.h"
#include "tests/lang/format/same_file.h"
#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> laid_out(const std::string& text) {
  SourceMap sources;
  Diagnostics diagnostics;
  return format("text.xgraph", text, sources, diagnostics);
}

// Returns the layout of the body of `train`, without the lines around it.
std::string settings(const std::string& body) {
  const std::string before = "xgraph 1\n\ntrain t {\n";
  const auto out = laid_out(before + body + "\n}\n");
  return out ? out->substr(before.size(), out->size() - before.size() - 2) : "does not parse";
}

// Returns the paths of all .xgraph files below these folders, relative to the source tree.
std::vector<std::string> files_below(const std::vector<std::string>& folders) {
  std::vector<std::string> files;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(XRUN_SOURCE_DIR) / folder)) {
      if (entry.path().extension() == ".xgraph") {
        files.push_back(fs::relative(entry.path(), XRUN_SOURCE_DIR).string());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Format, GoldensAreLaidOutAsExpected) {
  for (const std::string& name : test::golden_cases("format", ".xgraph")) {
    const std::string text = test::read_source_file("tests/golden/" + name);
    const auto out = laid_out(text);
    ASSERT_TRUE(out) << name;
    EXPECT_TRUE(test::matches_golden(*out, name.substr(0, name.rfind('.')) + ".formatted"));
    EXPECT_EQ(fault_of_layout(text), "") << name;
  }
}

TEST(Format, ModelsAndStandardLibraryAreInCanonicalLayout) {
  for (const std::string& path : files_below({"models", "lang/std"})) {
    const std::string text = test::read_source_file(path);
    const auto out = laid_out(text);
    ASSERT_TRUE(out) << path;
    EXPECT_EQ(test::diff_lines(*out, text), "") << path << ": run `xrun fmt models lang/std`";
  }
}

TEST(Format, EveryFileOfTheTreeKeepsItsTreeAndItsComments) {
  int laid = 0;
  for (const std::string& path : files_below({"models", "lang/std", "tests"})) {
    const std::string text = test::read_source_file(path);
    EXPECT_EQ(fault_of_layout(text), "") << path;
    laid += laid_out(text) ? 1 : 0;
  }
  EXPECT_GT(laid, 80);
}

TEST(Format, NoLineOfAModelIsWiderThanAHundredColumns) {
  for (const std::string& path : files_below({"models", "lang/std", "tests/bench", "tests/golden/parse"})) {
    const auto out = laid_out(test::read_source_file(path));
    for (size_t at = 0; out && at < out->size(); at = out->find('\n', at) + 1) {
      const std::string line = out->substr(at, out->find('\n', at) - at);
      EXPECT_TRUE(line.starts_with("#") || count_code_points(line) <= 100) << path << ": " << line;
    }
  }
}

// Returns the text with random white space between its tokens, and with comments where a line may end.
std::string shaken(std::mt19937_64& random, const std::string& text) {
  SourceMap sources;
  Diagnostics diagnostics;
  const auto [tokens, ast] = parse_with_tokens(sources, sources.add("shaken.xgraph", text), diagnostics);
  const auto pick = [&](int of) { return static_cast<int>(random() % static_cast<uint64_t>(of)); };
  int depth = 0;  // number of open ( and [
  std::string out = text.substr(0, tokens.tokens.front().begin);
  for (size_t i = 0; i + 1 < tokens.tokens.size(); ++i) {
    const Token& token = tokens.tokens[i];
    const Token& next = tokens.tokens[i + 1];
    const bool opens = token.kind == TokenKind::kLeftParen || token.kind == TokenKind::kLeftBracket;
    const bool closes = token.kind == TokenKind::kRightParen || token.kind == TokenKind::kRightBracket;
    depth += opens ? 1 : closes ? -1 : 0;
    out += tokens.spelling(token);
    const std::string gap = text.substr(token.end, next.begin - token.end);
    const bool may_break = depth > 0 || next.kind == TokenKind::kArrow || token.kind == TokenKind::kArrow;
    if (may_break && gap.find('#') == gap.npos && pick(6) == 0) {
      out += pick(3) == 0 ? " # note " + std::to_string(pick(100)) + "\n" : std::string(pick(9), ' ') + "\n";
    } else if (gap == " " && pick(3) == 0) {
      const bool is_value = token.kind == TokenKind::kNumber;  // one space stands between a number and its unit
      out += is_value || next.kind == TokenKind::kNumber ? " " : std::string(1 + pick(4), ' ');
    } else if (gap.find('\n') != gap.npos && gap.find('#') == gap.npos && pick(4) == 0) {
      const int sort = pick(3);
      out += sort == 0 ? "\n\n\n" + gap : sort == 1 ? "  # behind " + gap : "\n  ## own line\t\n" + gap;
    } else {
      out += gap;
    }
  }
  return out + text.substr(tokens.tokens.back().begin);
}

TEST(Format, RandomLayoutsKeepTheirTreeAndTheirComments) {
  const uint64_t seed = 20'261'125;
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  int kept = 0;
  for (const std::string& path : files_below({"models", "lang/std", "tests/golden/parse", "tests/golden/format"})) {
    const std::string text = test::read_source_file(path);
    if (!laid_out(text)) {
      continue;
    }
    for (int i = 0; i < 60; ++i) {
      const std::string other = shaken(random, text);
      const std::string fault = fault_of_layout(other);
      ASSERT_EQ(fault, "") << path << ", seed " << seed << ", case " << i << "\n" << other;
      kept += laid_out(other) ? 1 : 0;
    }
  }
  EXPECT_GT(kept, 1000);
}

// White space does not change the layout, except for blank lines and breaks before arrows.
TEST(Format, WhiteSpaceDoesNotChangeTheLayout) {
  EXPECT_EQ(settings("a=1\nbb = f( x,k =2 )"), settings("a   =  1\nbb=f(x , k=2)"));
  EXPECT_EQ(settings("a = [\n1,\n2,\n]"), "  a = [1, 2]\n");
}

TEST(Format, AssignmentsOfNeighboursAreAligned) {
  EXPECT_EQ(settings("a = 1\nlonger = 2\n\nb = 3\ng { c = 4 }\nd = 5"),
            "  a      = 1\n  longer = 2\n\n  b = 3\n  g {\n    c = 4\n  }\n  d = 5\n");
  EXPECT_EQ(settings("a = 1  # one\n# own\nlonger = 2"), "  a      = 1  # one\n  # own\n  longer = 2\n");
}

TEST(Format, AlignmentNeverMakesALineTooLong) {
  const std::string value = "f(" + std::string(90, 'x') + ")";
  EXPECT_EQ(settings("a = " + value + "\nlonger = 2\nlongest = 3"),
            "  a = " + value + "\n  longer  = 2\n  longest = 3\n");
}

TEST(Format, LineBreaksInPipelinesAreKept) {
  EXPECT_EQ(settings("a = x -> b\n    -> c -> d"), "  a = x -> b\n    -> c -> d\n");
  EXPECT_EQ(settings("a = x ->\nb"), "  a = x\n    -> b\n");
  EXPECT_EQ(settings("a = x -> repeat 2 {\nb\n-> c\n} -> d"), "  a = x -> repeat 2 {\n    b\n      -> c\n  } -> d\n");
}

TEST(Format, PipelinesThatAreTooLongBreakBeforeEachArrow) {
  const std::string stage = "stage" + std::string(40, 'x');
  EXPECT_EQ(settings("a = x -> " + stage + " -> " + stage + " -> c"),
            "  a = x\n    -> " + stage + "\n    -> " + stage + "\n    -> c\n");
}

TEST(Format, LongListsAreBrokenIntoFilledLines) {
  const std::string item = std::string(31, 'x');
  EXPECT_EQ(settings("a = [" + item + ", " + item + ", " + item + ", " + item + "]"),
            "  a = [\n    " + item + ", " + item + ",\n    " + item + ", " + item + ",\n  ]\n");
  EXPECT_EQ(settings("a = [1, # one\n2]"), "  a = [\n    1,  # one\n    2,\n  ]\n");
}

TEST(Format, RangesOfPlainWholeNumbersHaveNoSpaces) {
  EXPECT_EQ(settings("a = 0 .. 10"), "  a = 0..10\n");
  EXPECT_EQ(settings("a = 0..0.5"), "  a = 0 .. 0.5\n");
  EXPECT_EQ(settings("a = 2..1G"), "  a = 2 .. 1G\n");
  EXPECT_EQ(settings("a = b..4"), "  a = b .. 4\n");
  EXPECT_EQ(settings("a = 2 * 3..4"), "  a = 2 * 3 .. 4\n");
}

TEST(Format, LargeNumbersHaveTheirDigitsInGroups) {
  EXPECT_EQ(settings("a = f(16384, 9999, 1_6_3_8_4, 12345 steps, 1M, 0x4E00, 12345.5, 4_810)"),
            "  a = f(16_384, 9999, 16_384, 12_345 steps, 1M, 0x4E00, 12345.5, 4_810)\n");
}

TEST(Format, ImportsAndOptionsComeFirst) {
  const std::string text =
      "xgraph 1\n\n## The file.\n\nlet a = 1\n\n# of the option\noption o: int = 1\nfrom \"z.xgraph\" use z\n"
      "import \"a.xgraph\" as b\n";
  EXPECT_EQ(laid_out(text),
            "xgraph 1\n\n## The file.\n\nimport \"a.xgraph\" as b\n\nfrom \"z.xgraph\" use z\n\n# of the option\n"
            "option o: int = 1\n\nlet a = 1\n");
  // A comment with blank lines around it begins a section.
  const std::string sections = "xgraph 1\n\nlet a = 1\n\n# Section\n\nlet b = 2\n\noption o: int = 1\n";
  EXPECT_EQ(laid_out(sections), "xgraph 1\n\nlet a = 1\n\n# Section\n\noption o: int = 1\n\nlet b = 2\n");
}

TEST(Format, DocumentationStaysWithItsDeclaration) {
  const std::string text = "xgraph 1\nlet a = 1 ## of b\nlet b = 2\n";
  EXPECT_EQ(laid_out(text), "xgraph 1\n\nlet a = 1\n\n## of b\nlet b = 2\n");
  EXPECT_EQ(fault_of_layout(text), "");
}

// Comment lines directly above a declaration move with it, and `##` lines among them document it even if plain comments
// stand between them.
TEST(Format, PlainCommentsDoNotSeparateDocumentationFromItsDeclaration) {
  const std::string text = "xgraph 1\n\nlet a = 1\n\n## of n\n# note\noption n: int = 1\n";
  EXPECT_EQ(fault_of_layout(text), "");
  EXPECT_EQ(laid_out(text), "xgraph 1\n\n## of n\n# note\noption n: int = 1\n\nlet a = 1\n");
}

TEST(Format, TheSpaceBetweenANumberAndAFieldIsKept) {
  EXPECT_EQ(laid_out("xgraph 1\n\nlet a = 1 .b\n"), "xgraph 1\n\nlet a = 1 .b\n");
}

// build/fuzz/xrun_format_fuzz found both cases.
TEST(Format, SpacesAfterCommentsAreRemoved) {
  for (const char* text :
       {"xgraph 1\n\n## of the file \n\n## of a\t \nlet a = 1 # note  \n", "xgraph 1\n\n## a\r\r}\r \r"}) {
    EXPECT_EQ(fault_of_layout(text), "") << text;
  }
  EXPECT_EQ(laid_out("xgraph 1\n\n## of a \nlet a = 1 # note \r \n"), "xgraph 1\n\n## of a\nlet a = 1  # note\n");
}

TEST(Format, TabsCarriageReturnsAndAByteOrderMarkAreReplaced) {
  EXPECT_EQ(laid_out("\xEF\xBB\xBFxgraph 1\r\n\r\nlet\ta = 1\r\n"), "xgraph 1\n\nlet a = 1\n");
}

TEST(Format, TextsThatDoNotParseHaveNoLayout) {
  for (const char* text : {"", "let a = 1\n", "xgraph 1\nlet a = \n", "xgraph 1\nlet a = \"\t\"\n", "xgraph 2\n"}) {
    SourceMap sources;
    Diagnostics diagnostics;
    EXPECT_FALSE(format("text.xgraph", text, sources, diagnostics)) << text;
    EXPECT_TRUE(diagnostics.has_errors()) << text;
  }
}

TEST(Format, AResultLargerThanAFileMayBeIsRejected) {
  std::string text = "xgraph 1\n";
  for (int i = 0; text.size() < kMaxFileBytes - 100; ++i) {
    text += "let a" + std::to_string(i) + " = 1\n";
  }
  SourceMap sources;
  Diagnostics diagnostics;
  EXPECT_FALSE(format("text.xgraph", text, sources, diagnostics));
  ASSERT_EQ(diagnostics.all().size(), 1u);
  EXPECT_EQ(diagnostics.all()[0].code, "XG0101");
}

TEST(Format, ChangedLinesReferToTheOldText) {
  const auto lines = [](std::string_view before, std::string_view after) {
    const ChangedLines changed = changed_lines(before, after);
    return std::pair(changed.first, changed.last);
  };
  EXPECT_EQ(lines("a\nb\n", "a\nb\n"), std::pair(0, 0));
  EXPECT_EQ(lines("a\nb\nc\nd\n", "a\nB\nC\nd\n"), std::pair(2, 3));
  EXPECT_EQ(lines("a\nb\nc\n", "a\nc\n"), std::pair(2, 2));
  EXPECT_EQ(lines("a\nc", "a\nc\n"), std::pair(2, 2));
}

}  // namespace
}  // namespace xrun::lang
