// Each cause is reported once: a fault in one place neither causes false reports elsewhere nor hides other faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string model(const std::string& body) { return "model net {\n  input x: f32[N, 8]\n" + body + "  output y\n}\n"; }

TEST(Causes, ANumberThatCouldNotBeReadCausesNoOtherReport) {
  EXPECT_THAT(Checked("cluster c {\n  node { memory = 1EiB }\n}\n").codes(), ElementsAre("XG0108"));
  EXPECT_THAT(Checked(model("  y = x -> dropout(.5)\n")).codes(), ElementsAre("XG0105"));
  EXPECT_THAT(Checked("let a = 1e999\nlet b = a + \"s\"\n").codes(), ElementsAre("XG0109"));
}

TEST(Causes, ABrokenStatementIsNotAlsoReportedAsAMissingReturn) {
  const std::string text = "block b(x: [N, D]) {\n  retrun x\n}\n" + model("  y = b(x)\n");
  EXPECT_THAT(Checked(text).codes(), ElementsAre("XG0114"));
}

TEST(Causes, ReachingALimitInABlockReportsNoMissingReturn) {
  const std::string text =
      "block b(x: [N, D]) {\n  y = x -> repeat 1000 { relu }\n  return y\n}\n" + model("  y = b(x)\n");
  EXPECT_THAT(Checked(text, {.max_nodes = 100}).codes(), ElementsAre("XG0216"));
}

TEST(Causes, FieldsOfASourceWithAFaultAreNotReported) {
  const std::string broken = replaced(small_run(), "source train = synthetic([8], classes, samples=1000)",
                                      "source train = csv(\"a.csv\", rows=10..5)");
  EXPECT_THAT(Checked(broken).codes(), ElementsAre("XG0413"));
  // The source has a fault, so a metric on it is not reported as a metric on an unknown source.
  const std::string metric = replaced(small_run("  metrics = [accuracy(id, label, source=val)]"),
                                      "source val   = synthetic([8], classes, samples=100, seed=2)",
                                      "source val = csv(\"a.csv\", rows=10..5)");
  EXPECT_THAT(Checked(metric).codes(), ElementsAre("XG0413"));
  // A misspelt name is still reported if the right name is known.
  const Checked slip(replaced(replaced(broken, "x = pixels", "label = column(0) -> as_index(10)"),
                              "softmax_ce(id, label, scale=16)", "softmax_ce(id, lable, scale=16)"));
  EXPECT_THAT(slip.rendered(), HasSubstr("did you mean `label`?"));
}

TEST(Causes, ABindingThatFailedIsNotAnUnknownName) {
  const std::string text = replaced(small_run(), "x = pixels", "x = pixels\n  label = number -> as_index(10)");
  const Checked checked(text);
  EXPECT_THAT(checked.codes(), ElementsAre("XG0422")) << checked.rendered();
}

TEST(Causes, EveryInputWithoutDataIsReported) {
  const std::string text = replaced(small_run(), "input x: f32[N, 8]",
                                    "input x: f32[N, 8]\n  input second: f32[N, 3]\n  input third: f32[N, 5]");
  const Checked checked(text);
  EXPECT_THAT(checked.rendered(), HasSubstr("no field or binding of `data` gives the input `second`"));
  EXPECT_THAT(checked.rendered(), HasSubstr("no field or binding of `data` gives the input `third`"));
}

TEST(Causes, InvalidTypesAreReportedAtTheirDeclaration) {
  const auto codes = [](const std::string& text) { return Checked(text).codes(); };
  EXPECT_THAT(codes("block b(x: floot[N, D]) { return x }\n"), ElementsAre("XG0303"));
  EXPECT_THAT(codes("block b(x: [N, D], k: itn) { return x -> linear(k) }\n" + model("  y = b(x, 3)\n")),
              ElementsAre("XG0303"));
  EXPECT_THAT(codes("block b(x: [N, D], k: f32) { return x }\n"), ElementsAre("XG0303"));
  EXPECT_THAT(codes("block b(x: [N, D]) -> index[N] { return x }\n"), ElementsAre("XG0303"));
  EXPECT_THAT(codes("block b(x: [N, D], label: index[N]) { return softmax_ce(x, label) }\n" +
                    model("  input label: index(8)[N]\n  y = b(x, label)\n")),
              ElementsAre("XG0303"));
  EXPECT_THAT(codes("fn f(a: integer) = a\n"), ElementsAre("XG0303"));
  EXPECT_THAT(codes(model("  input label: index[N]\n  y = x -> linear(3)\n")), ElementsAre("XG0303"));
  EXPECT_THAT(codes(model("  input z: f32(3)[N, 8]\n  y = x -> linear(3)\n")), ElementsAre("XG0303"));
  EXPECT_THAT(codes(model("  input z: u9[N, 8]\n  y = x -> linear(3)\n")), ElementsAre("XG0303"));
  EXPECT_THAT(codes("block b(x: bf16[N, ..., D], c: float = 1, on: bool = true, s: list = [1]) { return x }\n"),
              IsEmpty());
}

TEST(Causes, NoneMayBePassedIfItIsTheDefault) {
  EXPECT_THAT(Checked(model("  y = x -> linear(3, bias=none)\n")).codes(), ElementsAre("XG0205"));
  EXPECT_THAT(Checked("block b(x: [N, D], k: int = none) { return x }\n" + model("  y = b(x, none)\n")).codes(),
              IsEmpty());
}

TEST(Causes, NestedCallsAreEvaluatedOnce) {
  std::string nested = "3";
  for (int i = 0; i < 60; ++i) {
    nested = "max(1, abs(" + nested + "))";
    if (i == 28) {
      break;  // brackets nest 64 deep
    }
  }
  const Checked checked("let a = " + nested + "\n", {.max_steps = 2000});
  EXPECT_THAT(checked.codes(), IsEmpty()) << checked.rendered();
}

TEST(Causes, AnOutputThatIsListedTwiceIsRejected) {
  EXPECT_THAT(Checked("model net {\n  input x: f32[N, 8]\n  y = x -> linear(2)\n  output y, y\n}\n").codes(),
              ElementsAre("XG0202"));
}

TEST(Causes, PowersWithoutAValueAreRejectedWithTheReason) {
  EXPECT_THAT(Checked("let a = (-8) ^ 0.5\n").rendered(), HasSubstr("a negative number cannot be raised"));
  EXPECT_THAT(Checked("let a = 0 ^ -0.5\n").codes(), ElementsAre("XG0307"));
  EXPECT_THAT(Checked("let a = 10.0 ^ 400\n").codes(), ElementsAre("XG0109"));
}

TEST(SetFlag, AStringOptionMayBeSetWithoutQuotes) {
  const std::string text =
      "option root: str = \"a\"\nlet path = root + \"/b\"\ntest \"t\" {\n  expect path == \"/tmp/x y/b\"\n}\n";
  const Checked plain(text, {.sets = {{"root", "/tmp/x y"}}});
  EXPECT_THAT(plain.codes(), IsEmpty()) << plain.rendered();
  const Checked written(text, {.sets = {{"root", "\"/tmp\" + \"/x y\""}}});
  EXPECT_THAT(written.codes(), IsEmpty()) << written.rendered();
  EXPECT_THAT(Checked(text, {.sets = {{"root", ""}}}).codes(), ElementsAre("XG0219"));
}

TEST(SetFlag, RejectsABlankValue) {
  const Checked checked("option n: int = 3\n", {.sets = {{"n", " "}}});
  EXPECT_THAT(checked.codes(), ElementsAre("XG0110"));
  EXPECT_THAT(checked.rendered(), HasSubstr("`--set n=` has no value"));
}

}  // namespace
}  // namespace xrun::lang
