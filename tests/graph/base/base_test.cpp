#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/random.h"
#include "graph/base/units.h"
#include "graph/base/utf8.h"
#include "graph/os/durable.h"
#include "graph/types/attr.h"
#include "graph/types/tensor_type.h"
#include "tests/support/shard_rule.h"

namespace xrun {
namespace {

// The known answers of philox4x32-10 in Random123.
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, IsStandardNormalInMeanAndDeviation) {
  const RandomStream stream(1, 2, 3);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 100000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double x = stream.normal(i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
}

TEST(RandomStream, DiffersInEveryPartOfItsKey) {
  std::set<uint32_t> seen;
  for (const RandomStream& stream : {RandomStream(1, 2, 3, 4), RandomStream(2, 2, 3, 4), RandomStream(1, 3, 3, 4),
                                     RandomStream(1, 2, 4, 4), RandomStream(1, 2, 3, 5)}) {
    seen.insert(stream.bits(0));
  }
  EXPECT_EQ(seen.size(), 5u);
}

// Blocks are drawn in groups, except where the low word of the counter wraps around.
TEST(RandomStream, FillGivesTheDrawsOfItsBlocks) {
  const RandomStream stream(7, 1, 2, 3);
  for (const uint64_t first :
       {uint64_t{0}, uint64_t{5}, uint64_t{0x7FFFFFF0}, uint64_t{0x7FFFFFF8}, uint64_t{0xFFFFFFE8},
        uint64_t{0xFFFFFFF0}, uint64_t{0xFFFFFFF1}, uint64_t{0xFFFFFFF8}, uint64_t{0x1FFFFFFFF}}) {
    for (const size_t size : {1u, 4u, 31u, 32u, 63u, 64u, 65u, 96u, 200u}) {
      std::vector<uint32_t> draws(size);
      stream.fill(first, draws);
      for (size_t i = 0; i < size; ++i) {
        ASSERT_EQ(draws[i], stream.block(first + i / 4)[i % 4]) << "first " << first << " of " << size << " at " << i;
      }
    }
  }
}

TEST(RandomStream, BelowStaysInRangeAndReachesEveryValue) {
  const RandomStream stream(3, 1);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 200; ++i) {
    const uint64_t x = stream.below(i, 7);
    ASSERT_LT(x, 7u);
    seen.insert(x);
  }
  EXPECT_EQ(seen.size(), 7u);
}

TEST(Permutation, IsABijectionForEverySize) {
  for (const uint64_t n : {1u, 2u, 3u, 4u, 5u, 16u, 17u, 1000u, 4097u}) {
    const Permutation order(n, 42, n);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t at = order(i);
      ASSERT_LT(at, n);
      seen.insert(at);
    }
    EXPECT_EQ(seen.size(), n);
  }
}

TEST(Permutation, ChangesWithItsStream) {
  const Permutation first(1000, 1, 0);
  const Permutation second(1000, 1, 1);
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    same += first(i) == second(i) ? 1 : 0;
  }
  EXPECT_LT(same, 20);
}

TEST(Units, ArePrintedInReadableForm) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(98251571), "93.7 MiB");
  EXPECT_EQ(format_bytes(9126805504), "8.5 GiB");
  EXPECT_EQ(format_seconds(0.0634), "63.4 ms");
  EXPECT_EQ(format_seconds(80), "1 min 20 s");
  EXPECT_EQ(format_seconds(154800), "1 d 19 h");
  EXPECT_EQ(format_count(24557632), "24 557 632");
  EXPECT_EQ(format_count(-1234), "-1 234");
  EXPECT_EQ(format_with_underscores(6375008), "6_375_008");
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(Durable, WritesWholeFilesAndReplacesThem) {
  const std::string path = testing::TempDir() + "/durable-" + std::to_string(::getpid());
  EXPECT_EQ(write_durably(path, bytes_of("longer than the second")), 0);
  EXPECT_EQ(write_durably(path, bytes_of("second")), 0);
  std::string text;
  std::getline(std::ifstream(path), text);
  EXPECT_EQ(text, "second");
  EXPECT_EQ(sync_directory(testing::TempDir()), 0);
  EXPECT_EQ(sync_directory(path), ENOTDIR);
  EXPECT_EQ(write_durably(path + "/inside", bytes_of("x")), ENOTDIR);
  EXPECT_EQ(sync_directory(path + "-missing"), ENOENT);
  std::filesystem::remove(path);
}

// Runs in a child process, because the limit on file sizes cannot be removed again.
TEST(Durable, ReportsWhyAFileCannotGrow) {
  const std::string path = testing::TempDir() + "/durable-limit-" + std::to_string(::getpid());
  const auto limited = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{16, 16};
    ::setrlimit(RLIMIT_FSIZE, &small);
    std::_Exit(write_durably(path, bytes_of("more than sixteen bytes")));
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(EFBIG), "");
  std::filesystem::remove(path);
}

TEST(TensorType, IsPrintedAsInTheLanguage) {
  EXPECT_EQ(to_text(TensorType{DType::kF32, {kBatch, 3, 112, 112}}), "f32[N, 3, 112, 112]");
  EXPECT_EQ(to_text(TensorType{DType::kI32, {kBatch}, false, 10}), "index(10)[N]");
  EXPECT_EQ(to_text(TensorType{DType::kF32, {kBatch, 7}, true}), "sharded[N, 7]");
  EXPECT_EQ(to_text(TensorType{DType::kF32, {kPerBlock, 8}}), "f32[G, 8]");
}

TEST(TensorType, CountsRowsAndRowBlocks) {
  const TensorType image{DType::kBF16, {kBatch, 2, 3}};
  EXPECT_EQ(image.elements(10, 4), 60);
  EXPECT_EQ(image.bytes(10, 4), 120);
  const TensorType statistics{DType::kF32, {kPerBlock, 8}};
  EXPECT_EQ(statistics.elements(10, 4), 24);
}

TEST(Attrs, ArePrintedInNameOrderAndReadAsNumbers) {
  const Attrs attrs{{"stride", int64_t{2}}, {"k", int64_t{3}}, {"p", 0.1}, {"bias", true}, {"to", std::string("bf16")}};
  EXPECT_EQ(to_text(attrs), "bias=true, k=3, p=0.1, stride=2, to=\"bf16\"");
  EXPECT_EQ(attrs.integer("k"), 3);
  EXPECT_EQ(attrs.real("k"), 3.0);
  EXPECT_EQ(attrs.integer("absent", 5), 5);
  EXPECT_EQ(to_text(AttrValue(2.0)), "2.0");
}

TEST(ShardRule, NamesTheLettersOfEachOperand) {
  const ShardRule rule = parse_shard_rule("ni,oi,+o->no", {2, 2, 1}, {2}).value();
  EXPECT_EQ(rule.inputs, (std::vector<std::string>{"ni", "oi", "o"}));
  EXPECT_EQ(rule.outputs, (std::vector<std::string>{"no"}));
  EXPECT_EQ(rule.letters, "nio");
  EXPECT_EQ(rule.terms, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(parse_shard_rule("n*->n*", {4}, {4}).value().inputs[0], "nABC");
  EXPECT_EQ(parse_shard_rule("n_*->n*", {4}, {3}).value().inputs[0], "n_AB");
  EXPECT_EQ(parse_shard_rule("_c.,c->_c.", {4, 1}, {2}).value().inputs[0], "_c__");
  EXPECT_EQ(parse_shard_rule("na->nab", {2}, {3}).value().letters, "nab");
  const ShardRule counted = parse_shard_rule("ng__, g___ -> ng__; groups=g", {4, 4}, {4}).value();
  EXPECT_EQ(counted.attrs, (std::vector<std::pair<std::string, char>>{{"groups", 'g'}}));
}

TEST(ShardRule, ARuleThatDoesNotFitIsRejected) {
  for (const std::string text : {"", "ni", "ni->n", "n,i->n", "n-->n", "n**->n", "nNi->n", "n+i->n", "n_.*->n",
                                 "nii->n; k", "nii->n; k=x", "nii->n; =n", "nii->n; k="}) {
    EXPECT_FALSE(parse_shard_rule(text, {3}, {1}).ok()) << text;
  }
  EXPECT_TRUE(parse_shard_rule("nii->n; k=i", {3}, {1}).ok());
}

class Rendering : public ::testing::Test {
 protected:
  Span find(const std::string& needle) const {
    const std::string text(sources.text(0));
    const size_t at = text.find(needle);
    return {0, static_cast<uint32_t>(at), static_cast<uint32_t>(at + needle.size())};
  }
  SourceMap sources;
};

TEST_F(Rendering, ShowsSpanNoteAndEditedLine) {
  sources.add("face.xgraph", std::string(27, '\n') + "  loss      = arcface(id, label, margn=0.5, scale=64)\n");
  const Diagnostic d{
      .code = "XG0203",
      .message = "`arcface` has no argument named `margn`",
      .primary = {find("margn"), "unknown argument"},
      .notes = {"arcface(logits, label)"},
      .fixes = {{.title = "a similar argument exists", .edits = {{find("margn"), "margin"}}, .sure = true}}};
  EXPECT_EQ(render(d, sources), R"(error[XG0203]: `arcface` has no argument named `margn`
  --> face.xgraph:28:34
   |
28 |   loss      = arcface(id, label, margn=0.5, scale=64)
   |                                  ^^^^^ unknown argument
   |
   = note: arcface(logits, label)
help: a similar argument exists
   |
28 ~   loss      = arcface(id, label, margin=0.5, scale=64)
)");
}

TEST_F(Rendering, ShowsSeveralLabelsBelowTheirLine) {
  sources.add("a.xgraph", "  return relu(y + skip)\n");
  const Diagnostic d{.code = "XG0301",
                     .message = "cannot add tensors of different shapes",
                     .primary = {find("+"), "256 and 64 channels"},
                     .secondary = {{find("y"), "[N, 256, 28, 28]"}, {find("skip"), "[N, 64, 28, 28]"}}};
  EXPECT_EQ(render(d, sources), R"(error[XG0301]: cannot add tensors of different shapes
 --> a.xgraph:1:17
  |
1 |   return relu(y + skip)
  |               - ^ ---- [N, 64, 28, 28]
  |               | |
  |               | 256 and 64 channels
  |               [N, 256, 28, 28]
  |
)");
}

TEST_F(Rendering, LinesFarApartAreShownInSeparateBlocks) {
  sources.add("a.xgraph", "option classes: int = 2\n\n\n\n\n  source train = folder(\"p\")\n");
  const Diagnostic d{.code = "XG0402",
                     .message = "label 2 does not fit a head with 2 classes",
                     .primary = {find("2"), "labels must be 0..1"},
                     .secondary = {{find("folder(\"p\")"), "labels 0..2"}}};
  EXPECT_EQ(render(d, sources), R"(error[XG0402]: label 2 does not fit a head with 2 classes
 --> a.xgraph:1:23
  |
1 | option classes: int = 2
  |                       ^ labels must be 0..1
  |
 ::: a.xgraph:6:18
  |
6 |   source train = folder("p")
  |                  ----------- labels 0..2
  |
)");
}

TEST_F(Rendering, AnEditAfterACarriageReturnIsShownAtTheEndOfTheLine) {
  sources.add("a.xgraph", "ab\r");
  const Diagnostic d{
      .code = "XG0104", .message = "open", .primary = {find("b"), ""}, .fixes = {{"close it", {{{0, 3, 3}, "!"}}}}};
  EXPECT_NE(render(d, sources).find("1 ~ ab!\n"), std::string::npos) << render(d, sources);
}

TEST_F(Rendering, FixesWithEqualTitlesShareOneHelp) {
  sources.add("a.xgraph", "  reserve = 3\n");
  const uint32_t end = find("3").end;
  const Diagnostic units{.code = "XG0107",
                         .message = "3 has no unit",
                         .primary = {find("3"), ""},
                         .fixes = {{.title = "say which one you mean", .edits = {{{0, end, end}, "GiB"}}},
                                   {.title = "say which one you mean", .edits = {{{0, end, end}, "MiB"}}}}};
  EXPECT_NE(
      render(units, sources).find("help: say which one you mean\n  |\n1 ~   reserve = 3GiB\n  ~   reserve = 3MiB\n"),
      std::string::npos)
      << render(units, sources);
  Error error{ErrorKind::kInfeasible, "XG0601", "does not fit", "plans that fit", find("3")};
  error.label = "3 samples";
  error.notes = {"on the device\nweights   3 MiB"};
  error.choices = {"batch = 2", "batch = 1"};
  EXPECT_EQ(render(error, sources), R"(error[XG0601]: does not fit
 --> a.xgraph:1:13
  |
1 |   reserve = 3
  |             ^ 3 samples
  |
  = note: on the device
    weights   3 MiB
help: plans that fit
  |
  1 batch = 2
  2 batch = 1
)");
}

TEST_F(Rendering, CountsColumnsInCodePoints) {
  sources.add("a.xgraph", "s = \"\u6f22\u5b57\" + x\n");
  const Diagnostic d{.code = "XG0201", .message = "unknown name `x`", .primary = {find("x\n"), ""}};
  EXPECT_NE(render(d, sources).find("a.xgraph:1:12"), std::string::npos) << render(d, sources);
}

TEST_F(Rendering, ControlCharactersDoNotReachTheTerminal) {
  sources.add("a\x1B[2J.xgraph", "x = \"\x1B[31m\" + y\n");
  Diagnostic d{.code = "XG0201", .message = "unknown name `\x1B[1m`", .primary = {find("y\n"), "\x07"}};
  d.notes.push_back("first\nsecond\x9B");
  d.fixes.push_back({.title = "write \x7F"});
  const std::string text = render(d, sources);
  EXPECT_EQ(text.find_first_of("\x1B\x07\x7F"), std::string::npos) << text;
  EXPECT_NE(text.find("1 | x = \"\u241B[31m\" + y"), std::string::npos) << text;
  EXPECT_NE(text.find("second\uFFFD"), std::string::npos) << text;
}

TEST(Utf8, PrintableReplacesControlAndInvisibleCharacters) {
  EXPECT_EQ(printable("caf\u00E9 \u6f22\n"), "caf\u00E9 \u6f22\n");
  EXPECT_EQ(printable(std::string_view("\0\t\r\x7F", 4)), "\u2400\u2409\u240D\u2421");
  EXPECT_EQ(printable("\u009B\u202E\u2066\xE9"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(printable(""), "");
}

TEST(Utf8, PrintableLinesHaveNoLineBreaksAndInvalidBytesStayDistinct) {
  EXPECT_EQ(printable_line("a\nb\x1B"), "a\u240Ab\u241B");
  EXPECT_EQ(well_formed("caf\u00E9 \u6f22\n"), "caf\u00E9 \u6f22\n");
  EXPECT_EQ(well_formed("caf\xE9"), "caf\\xE9");
  EXPECT_NE(well_formed("caf\xE8"), well_formed("caf\xE9"));
}

TEST(Utf8, CharactersAreWrittenAndReadBack) {
  for (const uint32_t code : {0x41U, 0xE9U, 0x7FFU, 0x800U, 0x4E00U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    std::string text;
    append_utf8(text, code);
    EXPECT_EQ(sequence_length(text), text.size()) << code;
  }
  EXPECT_EQ(sequence_length("\xC0\x80"), 0U);      // overlong
  EXPECT_EQ(sequence_length("\xED\xA0\x80"), 0U);  // a surrogate
}

TEST_F(Rendering, AnErrorWithoutAPlaceIsOneLineFollowedByItsHelp) {
  const Error error{ErrorKind::kWorld, "XG0411", "font `cwyen` is not installed", "apt-get install fonts-cwtex-yen"};
  EXPECT_EQ(render(error, sources),
            "error[XG0411]: font `cwyen` is not installed\nhelp: apt-get install fonts-cwtex-yen\n");
  EXPECT_EQ(exit_code(error.kind), 4);
}

// For a line of a megabyte, as programs write them, only the part around the fault is shown.
TEST(Diagnostics, ShowAtMostTwoHundredColumnsOfALine) {
  SourceMap sources;
  std::string line(1'000'000, 'x');
  line.replace(500'000, 5, "wrong");
  line.replace(500'100, 4, "here");
  line.replace(10, 3, "far");
  const int32_t file = sources.add("a.xgraph", "short\n" + line + "\n");
  const auto span = [&](uint32_t begin, uint32_t size) { return Span{file, 6 + begin, 6 + begin + size}; };
  Diagnostic d{.code = "XG0102", .message = "a message", .primary = {span(500'000, 5), "this"}};
  d.secondary = {{span(500'100, 4), "that"}, {span(10, 3), "far away"}};
  d.fixes.push_back({.title = "mend it", .edits = {{span(500'000, 5), "right"}}});
  const std::string text = render(d, sources);
  EXPECT_LT(text.size(), 2'000U) << text;
  EXPECT_NE(text.find("--> a.xgraph:2:500001\n"), std::string::npos) << text;
  const std::string left = std::string(60, 'x');
  EXPECT_NE(text.find("2 | ..." + left + "wrong" + std::string(95, 'x') + "here" + std::string(36, 'x') + "...\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("2 ~ ..." + left + "right"), std::string::npos) << text;
  // A mark stands below the text that it marks. If that text is not shown, the mark stands at the edge.
  const size_t marks = text.find("^^^^^");
  ASSERT_NE(marks, std::string::npos);
  EXPECT_EQ(marks - text.rfind('\n', marks), text.find("wrong") - text.rfind('\n', text.find("wrong"))) << text;
  // A line that is short enough is shown whole.
  const Diagnostic whole{.code = "XG0102", .message = "a message", .primary = {{file, 0, 5}, "this"}};
  EXPECT_NE(render(whole, sources).find("1 | short\n"), std::string::npos);
}

TEST(Diagnostics, EqualDiagnosticsAreKeptOnce) {
  Diagnostics all;
  all.add({.code = "XG0201", .message = "unknown name `x`", .primary = {{0, 1, 2}, ""}});
  all.add({.code = "XG0201", .message = "unknown name `x`", .primary = {{0, 1, 2}, ""}});
  all.add({.severity = Severity::kWarning, .code = "XG0120", .message = "upper case", .primary = {{0, 3, 4}, ""}});
  EXPECT_EQ(all.all().size(), 2u);
  EXPECT_EQ(all.error_count(), 1);
}

TEST(Diagnostics, ManyWarningsHideNoError) {
  Diagnostics all;
  for (uint32_t i = 0; i < 700; ++i) {
    all.add({.severity = Severity::kWarning, .code = "XG0120", .message = "a", .primary = {{0, i, i + 1}, ""}});
  }
  EXPECT_EQ(all.all().size(), 500u);
  EXPECT_FALSE(all.has_errors());
  for (uint32_t i = 0; i < 700; ++i) {
    all.add({.code = "XG0201", .message = "b", .primary = {{0, i, i + 1}, ""}});
  }
  EXPECT_EQ(all.all().size(), 1000u);
  EXPECT_EQ(all.all()[500].code, "XG0201");
  EXPECT_EQ(all.error_count(), 700) << "further ones are counted";
}

}  // namespace
}  // namespace xrun
