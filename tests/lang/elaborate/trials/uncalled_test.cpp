// Blocks and functions that nothing calls are checked with made-up arguments. Real mistakes are found, and there are no
// false reports.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lang/checked.h"
#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Uncalled, MistakesThatOccurForAllArgumentsAreFound) {
  for (const auto& [body, code] :
       std::vector<std::pair<std::string, std::string>>{{"return x -> rellu", "XG0201"},
                                                        {"return x -> linear(widht)", "XG0201"},
                                                        {"return x -> linear(4, biass=true)", "XG0203"},
                                                        {"return x -> linear", "XG0204"},
                                                        {"return x -> dropout(0.1, 2)", "XG0204"},
                                                        {"y = x -> relu", "XG0224"},
                                                        {"return x -> b(width)", "XG0208"},
                                                        {"return x -> conv(4, 3)", "XG0302"},
                                                        {"return x + (x -> linear(2 * D))", "XG0301"},
                                                        {"return x -> linear(D / (2 * D))", "XG0312"},
                                                        {"return x -> linear(\"wide\")", "XG0205"}}) {
    const Checked checked("block b(x: [N, D], width: int) {\n  " + body + "\n}\n");
    EXPECT_THAT(checked.codes(), ElementsAre(code)) << body << "\n" << checked.rendered();
  }
  EXPECT_THAT(Checked("fn f(a: int) = a + c\n").codes(), ElementsAre("XG0201"));
  EXPECT_THAT(Checked("fn f(a: int) = a + \"x\"\n").codes(), ElementsAre("XG0304"));
  EXPECT_THAT(Checked("fn f(a: int) = g(a)\nfn g(a: int) = f(a)\n").codes(), testing::Contains("XG0208"));
}

TEST(Uncalled, ResultsAreCheckedAgainstTheDeclaredType) {
  EXPECT_THAT(Checked("block b(x: [N, D]) -> [N, 2 * D] { return x -> linear(2 * D) }\n").codes(), IsEmpty());
  const Checked wrong("block b(x: [N, D]) -> [N, 2 * D] { return x -> linear(D) }\n");
  EXPECT_THAT(wrong.codes(), ElementsAre("XG0302"));
  EXPECT_THAT(wrong.rendered(), HasSubstr("nothing calls `b` yet: it was tried with x: f32[N, 64]"));
}

TEST(Uncalled, ConditionsThatSomeArgumentsMeetAreAccepted) {
  for (const std::string text : {
           "block b(x: [N, C], y: [N, D]) { return x + y }\n",
           "block b(x: [N, C]) {\n  assert C == 7, \"seven\"\n  return x + (x -> linear(7))\n}\n",
           "block b(x: [N, C], ratio: int) { return x -> linear(C / ratio) }\n",
           "block b(x: [N, C, H, W], k: int) { return x -> conv(C, k, pad=0) }\n",
           "block b(x: [N, ...]) { return x -> flatten -> linear(3) }\n",
           "block b(x: [N, T, D]) -> [N, T, 4 * D] { return x -> linear(4 * D) -> relu }\n",
           "block b(z: sharded[N, C], label: index(C)[N]) { return softmax_ce(z, label) }\n",
           "block b(x: [N, C], depths: list) { return x -> linear(depths[3]) -> repeat depths[0] { relu } }\n",
           "block b(x: [N, C], f) { return x -> linear(f) }\n",
           "fn half(x: int) = 1 / (x - 2)\n",
           "fn pick(sizes: list, i: int) = sizes[i]\n",
       }) {
    const Checked checked(text);
    EXPECT_THAT(checked.codes(), IsEmpty()) << text << checked.rendered();
  }
}

TEST(Uncalled, CalledBlocksAreCheckedOnlyByTheirCalls) {
  const Checked checked(R"(
block narrow(x: [N, D]) {
  return x + (x -> linear(8))
}
model net {
  input x: f32[N, 8]
  y = x -> narrow
  output y
}
)");
  EXPECT_THAT(checked.codes(), IsEmpty()) << checked.rendered();
}

TEST(Uncalled, ModelsThatTheRunDoesNotChooseAreChecked) {
  const std::string text =
      "model one {\n  input x: f32[N, 4]\n  y = x -> linear(2)\n  output y\n}\n"
      "model two {\n  input x: f32[N, 4]\n  y = x -> linaer(3)\n  output y\n}\n"
      "run first { model = one }\n";
  EXPECT_THAT(Checked(text).codes(), ElementsAre("XG0201"));
}

}  // namespace
}  // namespace xrun::lang
