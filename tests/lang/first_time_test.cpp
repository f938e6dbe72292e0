// Checks programs as users of PyTorch and Keras write them at first, each with one mistake or a few.
// tests/golden/first_time holds the expected diagnostics, with the real operators. Their edits are applied one after
// another, as a user would.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/print.h"
#include "lang/frontend.h"
#include "ops/op.h"
#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Answer {
  SourceMap sources;
  Diagnostics diagnostics;
  std::optional<CheckedFile> file;

  explicit Answer(const std::string& text, const std::string& name = "first.xgraph") {
    file = check_text(name, text, sources, diagnostics, {.ops = &ops::registry()});
  }
  std::string rendered() const {
    std::string text;
    for (const Diagnostic& diagnostic : diagnostics.all()) {
      text += (text.empty() ? "" : "\n") + render(diagnostic, sources);
    }
    return text;
  }
  std::vector<std::string> codes() const {
    std::vector<std::string> codes;
    for (const Diagnostic& diagnostic : diagnostics.all()) {
      codes.push_back(diagnostic.code);
    }
    return codes;
  }
};

std::string edited(std::string text, std::vector<Edit> edits) {
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) { return a.span.begin > b.span.begin; });
  for (const Edit& edit : edits) {
    text.replace(edit.span.begin, edit.span.end - edit.span.begin, edit.text);
  }
  return text;
}

const Diagnostic* first_with_edits(const Answer& answer) {
  const auto& all = answer.diagnostics.all();
  const auto found =
      std::find_if(all.begin(), all.end(), [](const Diagnostic& d) { return !d.fixes[0].edits.empty(); });
  return found == all.end() ? nullptr : &*found;
}

// Applies all edits. Expects that each edit removes its diagnostic and that the text it inserts has no fault.
std::string follow(std::string text, const std::string& name) {
  for (int round = 0; round < 20; ++round) {
    const Answer before(text, name);
    const Diagnostic* diagnostic = first_with_edits(before);
    if (diagnostic == nullptr) {
      return text;
    }
    const std::vector<Edit>& edits = diagnostic->fixes[0].edits;
    text = edited(text, edits);
    const Answer after(text, name);
    for (const Diagnostic& d : after.diagnostics.all()) {
      EXPECT_FALSE(d.code == diagnostic->code && d.message == diagnostic->message &&
                   d.primary.span.begin == diagnostic->primary.span.begin)
          << name << ": the edit leaves what it is for\n"
          << text << after.rendered();
      for (const Edit& edit : edits) {
        const uint32_t end = edit.span.begin + static_cast<uint32_t>(edit.text.size());
        EXPECT_FALSE(edits.size() == 1 && d.primary.span.begin >= edit.span.begin && d.primary.span.end <= end &&
                     d.primary.span.begin < d.primary.span.end)
            << name << ": the edit writes a fault\n"
            << text << after.rendered();
      }
    }
  }
  ADD_FAILURE() << name << ": the edits do not end\n" << text;
  return text;
}

TEST(ProgramsOfNewUsers, DiagnosticsMatchTheGoldenFilesAndEditsRemoveThem) {
  const std::vector<std::string> programs = test::golden_cases("first_time", ".xgraph");
  EXPECT_GE(programs.size(), 120U);
  for (const std::string& name : programs) {
    const std::string text = test::read_source_file("tests/golden/" + name);
    const std::string file = name.substr(name.rfind('/') + 1);
    const Answer answer(text, file);
    const std::string last = follow(text, file);
    const Answer end(last, file);
    std::string golden = answer.rendered();
    golden += end.diagnostics.all().empty() ? "\nafter its edits: nothing to report\n"
              : last == text                ? "\nno edits\n"
                                            : "\nafter its edits:\n\n" + end.rendered();
    const std::string stem = name.substr(0, name.rfind('.'));
    EXPECT_TRUE(test::matches_golden(golden, stem + ".txt"));
  }
}

// ---- graphs and codes of single programs ----------------------------------------------------------------------------

std::string model(const std::string& statements, const std::string& input = "x: f32[N, 3, 8, 8]") {
  return "xgraph 1\n\nmodel m {\n  input " + input + "\n" + statements + "}\n";
}

std::string graph_of(const std::string& text) {
  const Answer answer(text);
  EXPECT_THAT(answer.codes(), IsEmpty()) << answer.rendered();
  return answer.file ? print(answer.file->module.graph) : "";
}

TEST(ProgramsOfNewUsers, SplitGivesEqualSlices) {
  const std::string three = graph_of(model("  (a, b, c) = x -> split(3)\n  output a, b, c\n", "x: f32[N, 12]"));
  EXPECT_THAT(three, HasSubstr("slice(%0) {axis=1, begin=0, end=4}"));
  EXPECT_THAT(three, HasSubstr("slice(%0) {axis=1, begin=4, end=8}"));
  EXPECT_THAT(three, HasSubstr("slice(%0) {axis=1, begin=8, end=12}"));
  EXPECT_THAT(Answer(model("  (a, b) = x -> split(3)\n  output a, b\n")).codes(), ElementsAre("XG0304"));
  EXPECT_THAT(Answer(model("  (a, b) = x -> split(2)\n  output a, b\n")).codes(), ElementsAre("XG0301"));
  graph_of(model("  (q, k) = x -> flatten(2) -> split(2, axis=-1) as parts\n  y = q * k\n  output y\n"));
}

TEST(ProgramsOfNewUsers, PoolsOfSizeTwoHalveTheImage) {
  for (const char* pool : {"max_pool", "avg_pool"}) {
    EXPECT_THAT(graph_of(model("  y = x -> " + std::string(pool) + "(2, stride=2)\n  output y\n")),
                HasSubstr("[N, 3, 4, 4]"));
    EXPECT_THAT(graph_of(model("  y = x -> " + std::string(pool) + "(3, stride=2)\n  output y\n")), HasSubstr("pad=1"));
  }
}

TEST(ProgramsOfNewUsers, MinusOneInAShapeIsTheOneInferredDimension) {
  const std::string explicit_shape = graph_of(model("  y = x -> reshape([N, 3, 64])\n  output y\n"));
  EXPECT_EQ(graph_of(model("  y = x -> reshape([N, 3, -1])\n  output y\n")), explicit_shape);
  EXPECT_EQ(graph_of(model("  y = x -> reshape([N, -1, 64])\n  output y\n")), explicit_shape);
  const auto code = [](const std::string& shape) {
    return Answer(model("  y = x -> reshape(" + shape + ")\n  output y\n")).codes();
  };
  EXPECT_THAT(code("[-1, 192]"), ElementsAre("XG0303"));
  EXPECT_THAT(code("[N, -1, -1]"), ElementsAre("XG0303"));
  EXPECT_THAT(code("[N, 5, -1]"), ElementsAre("XG0301"));
  EXPECT_THAT(code("[N, 0, -1]"), ElementsAre("XG0303"));
  EXPECT_THAT(code("[64, -1]"), ElementsAre("XG0301"));
}

TEST(ProgramsOfNewUsers, InternalOperatorsCannotBeCalled) {
  for (const char* call : {"x -> cast(\"bf16\")", "fill(x, 0.5)", "x -> relu.grad"}) {
    const Answer answer(model("  y = " + std::string(call) + "\n  output y\n"));
    EXPECT_THAT(answer.codes(), ElementsAre("XG0201")) << call;
  }
  EXPECT_THAT(Answer(model("  y = x -> fil\n  output y\n")).rendered(), Not(HasSubstr("`fill`")));
  EXPECT_THAT(Answer(model("  y = x -> relu\n  output y\n", "x: u8[N, 4]")).rendered(), Not(HasSubstr("cast")));
}

TEST(ProgramsOfNewUsers, LinearAndNormsTakeAnyRank) {
  for (const char* dims : {"[N, 6]", "[N, 2, 6]", "[N, 2, 3, 6]", "[N, 2, 3, 4, 6]", "[N, 2, 3, 4, 5, 6]"}) {
    const std::string text =
        graph_of(model("  y = x -> layer_norm -> rms_norm -> linear(7)\n  output y\n", "x: f32" + std::string(dims)));
    std::string out(dims);
    out.replace(out.rfind('6'), 1, "7");
    EXPECT_THAT(text, HasSubstr(out));
  }
  const std::string image = graph_of(model("  y = x -> linear(7)\n  output y\n"));
  EXPECT_THAT(image, HasSubstr("linear.weight: f32[7, 8]"));
}

TEST(ProgramsOfNewUsers, NamesAreFoundWithoutCase) {
  const Answer answer(model("  y = x -> Conv(4, K=3) -> RELU\n  output Y\n"));
  EXPECT_THAT(answer.rendered(), HasSubstr("~   y = x -> conv(4, k=3) -> RELU\n"));
  EXPECT_THAT(answer.rendered(), HasSubstr("~   output y\n"));
}

TEST(ProgramsOfNewUsers, UncalledBodiesAreChecked) {
  const auto codes = [](const std::string& text) { return Answer("xgraph 1\n\n" + text).codes(); };
  EXPECT_THAT(codes("pointwise swish(x, beta = 1.0) = x * sigmoid(beta * x)\n"), IsEmpty());
  EXPECT_THAT(codes("pointwise swish(x) = x * sigmoit(x)\n"), ElementsAre("XG0201"));
  EXPECT_THAT(codes("pointwise swish(x) = x -> sigmoid + y\n"), ElementsAre("XG0110"));
  EXPECT_THAT(codes("pointwise swish(x) = y * sigmoid(x)\n"), ElementsAre("XG0201"));
  const std::string plain = "optimizer plain(lr, momentum = 0.9) {\n  state m = 0\n  m = momentum * m + grad\n";
  EXPECT_THAT(codes(plain + "  weight = weight - lr * m / sqrt(step)\n}\n"), IsEmpty());
  EXPECT_THAT(codes(plain + "  weight = weight - lr * n\n}\n"), ElementsAre("XG0201"));
  EXPECT_THAT(codes(plain + "  return weight\n}\n"), ElementsAre("XG0224"));
}

TEST(ProgramsOfNewUsers, ABlockThatIsRightForSomeArgumentsIsAccepted) {
  for (const char* block : {"block b(x: [N, C, H, W]) { return x -> reshape([N, C, 7, 7]) }\n",
                            "block b(x: [N, D]) { return x + (x -> linear(100)) }\n",
                            "block b(x: [N, D], parts: int = 7) { return x -> reshape([N, parts, D / parts]) }\n",
                            "block b(x: [N, 12], parts: int = 7) { return x -> reshape([N, parts, -1]) }\n"}) {
    const Answer answer("xgraph 1\n\n" + std::string(block));
    EXPECT_FALSE(answer.diagnostics.has_errors()) << answer.rendered();
  }
  // No parameter is free here, so no argument could make the block right.
  EXPECT_TRUE(Answer("xgraph 1\n\nblock b(x: [N, 12]) { return x + (x -> linear(100)) }\n").diagnostics.has_errors());
}

TEST(ProgramsOfNewUsers, WarningsInEveryLineHideNoError) {
  std::string statements;
  for (int i = 0; i < 600; ++i) {
    statements += "  y" + std::to_string(i) + " = x -> relu\n";
  }
  const Answer unused(model(statements + "  y = x -> rellu\n  output y\n"));
  EXPECT_THAT(unused.codes(), ::testing::Contains("XG0201"));
  std::string text = "xgraph 1\n\n";
  for (int i = 0; i < 600; ++i) {
    text += "let A" + std::to_string(i) + " = 1\n";
  }
  EXPECT_THAT(Answer(text + "lett b = 2\n").codes(), ::testing::Contains("XG0114"));
}

}  // namespace
}  // namespace xrun::lang
