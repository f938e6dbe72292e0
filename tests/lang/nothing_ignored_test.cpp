// Every part of a text is read or rejected; nothing that is written is ignored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> codes(const std::string& text) { return Checked(text).codes(); }

std::string model(const std::string& body) { return "model net {\n  input x: f32[N, 64]\n" + body + "  output y\n}\n"; }

TEST(NothingIgnored, UnsupportedTypesAreRejected) {
  EXPECT_THAT(codes("model net {\n  input x: sharded[N, 8]\n  y = x -> nonsense(3)\n  output y\n}\n"),
              ElementsAre("XG0303"));
  EXPECT_THAT(codes("block b(x: [..., C, ...]) { return x -> relu }\n" + model("  y = x -> b\n")),
              ElementsAre("XG0303"));
}

TEST(NothingIgnored, SourcesOutsideOfDataAreRejected) {
  EXPECT_THAT(codes(small_run("  source q = csv(\"x\")")), ElementsAre("XG0210"));
  EXPECT_THAT(codes(small_run({}, "schedule s {\n  source a = b(3)\n}\n")), ElementsAre("XG0210"));
}

TEST(NothingIgnored, ArgumentsOfPlainWordsAreRejected) {
  for (const char* setting : {"order = shuffled(42)", "init = seed(5)", "reduce = sum(3)", "active_classes = all(5%)",
                              "precision = f32(16)", "norm_rows = global(3)", "clip = none(1)", "ema = foo(1)"}) {
    const Checked checked(small_run(std::string("  ") + setting));
    EXPECT_THAT(checked.codes(), ElementsAre(testing::AnyOf("XG0204", "XG0201"))) << checked.rendered();
  }
  const Checked order(small_run("  order = shuffled(42)"));
  EXPECT_THAT(order.rendered(), HasSubstr("~   order = shuffled\n"));
  for (const char* setting : {"pipeline = gpipe(8)", "shard id { over = all(3) }", "shard id { split = classes(2) }",
                              "shard id { granularity = step(1) }", "recompute = none(3)"}) {
    const Checked checked(small_run({}, std::string("schedule s {\n  ") + setting + "\n}\n"));
    EXPECT_EQ(checked.codes().size(), 1U) << checked.rendered();
  }
  const Checked scaled(small_run("  precision = mixed(bf16, loss_scale=nonsense)"));
  EXPECT_THAT(scaled.codes(), ElementsAre("XG0204"));
  EXPECT_THAT(scaled.rendered(), HasSubstr("`loss_scale` belongs to `mixed(f16)`"));
}

TEST(NothingIgnored, GroupsWithoutTensorsAreRejected) {
  EXPECT_THAT(codes(small_run("  groups {\n    lr=0.1\n  }")), ElementsAre("XG0210"));
  EXPECT_THAT(codes(small_run("  groups {\n    nonsense {\n    }\n  }")), ElementsAre("XG0217"));
  EXPECT_THAT(codes(small_run("  groups {\n    id {\n      weight_decay = 0\n    }\n  }")), IsEmpty());
}

TEST(NothingIgnored, AValueOfARunThatIsNotADeclarationIsRejected) {
  EXPECT_THAT(codes(small_run({}, "run r {\n  model = nonsense.net\n}\n")), ElementsAre("XG0201"));
  EXPECT_THAT(codes(small_run({}, "run r {\n  data = 3 + 4\n}\n")), ElementsAre("XG0205"));
  EXPECT_THAT(codes(small_run({}, "run r {\n  train { a = 1 }\n}\n")), testing::Contains("XG0205"));
}

TEST(NothingIgnored, UnknownKeysOfUnusedDeclarationsAreRejected) {
  const std::string run =
      "run r {\n  data = items\n  train = softmax\n  schedule = two\n}\nschedule two {\n  stages = 2\n}\n";
  EXPECT_THAT(codes(small_run({}, run)), IsEmpty());
  EXPECT_THAT(codes(small_run({}, run + "train u {\n  batchsize = 4\n}\n")), ElementsAre("XG0210"));
  EXPECT_THAT(codes(small_run({}, run + "schedule u {\n  nope = 3\n}\n")), ElementsAre("XG0210"));
  EXPECT_THAT(codes(small_run({}, run + "data b {\n  source train = nonsense(3)\n}\n")), ElementsAre("XG0201"));
  EXPECT_THAT(codes("train t {\n  batchsize = 3\n}\n"), ElementsAre("XG0210"));
}

TEST(NothingIgnored, TheNameNCannotBeBound) {
  EXPECT_THAT(codes("block b(x: [N, C], N: int) { return x }\n"), ElementsAre("XG0202"));
  EXPECT_THAT(codes("let N = 7\n"), ElementsAre("XG0202"));
  EXPECT_THAT(codes(model("  y = x -> repeat 3 as N { relu }\n")), ElementsAre("XG0202"));
  EXPECT_THAT(codes(model("  input z: index(N)[N]\n  y = x -> relu\n")), ElementsAre("XG0303"));
}

TEST(NothingIgnored, ParametersWithEqualNamesAreReported) {
  EXPECT_THAT(codes("fn f(a, a) = a\n"), ElementsAre("XG0202"));
  EXPECT_THAT(codes("block b(x: [N, K], K: int) { return x -> linear(K) }\n" + model("  y = b(x, 3)\n")),
              ElementsAre("XG0120", "XG0302"));
  EXPECT_THAT(codes("block b(x: [N, K], K: int) { return x -> linear(K) }\n" + model("  y = b(x, 64)\n")),
              ElementsAre("XG0120"));
}

TEST(NothingIgnored, InvalidCurvesAreRejected) {
  for (const auto& [curve, code] :
       std::vector<std::pair<std::string, std::string>>{{"steps(0.1, at=[2 epochs, 1 epoch])", "XG0506"},
                                                        {"steps(0.1, at=[1 epoch], by=-1)", "XG0214"},
                                                        {"[warmup(0 .. 0.1, 2 epochs), cosine(0.1 .. 0)]", "XG0506"},
                                                        {"[warmup(0 .. 0.1, 0.3 steps), cosine(0.1 .. 0)]", "XG0214"},
                                                        {"steps(0.1, at=[])", "XG0506"},
                                                        {"steps(0.1, at=[3 epochs])", "XG0506"},
                                                        {"steps(0.1, at=[1], by=0.5)", "XG0107"}}) {
    EXPECT_THAT(codes(small_run("  epochs = 2\n  lr = " + curve)), ElementsAre(code)) << curve;
  }
  EXPECT_THAT(codes(small_run("  lr = steps(0.1, at=1 epoch)")), IsEmpty());
  EXPECT_THAT(Checked(small_run("  epochs = 3\n  lr = warmup(0 .. 0.1, 2 epochs)")).rendered(),
              HasSubstr("add a curve for the rest: lr = [warmup"));
}

TEST(NothingIgnored, LabelsThatNameNothingAreRejected) {
  std::string text = small_run();
  text.replace(text.find("x = pixels"), 10, "x = pixels -> scale(2) as foo");
  EXPECT_THAT(codes(text), ElementsAre("XG0422"));
  EXPECT_THAT(codes(model("  y = x -> relu\n  head id = x -> cosine_classifier(10) as foo\n")), ElementsAre("XG0224"));
}

TEST(NothingIgnored, LongStringsAndRepeatedFaultsAreBounded) {
  std::string text = "let s0 = \"" + std::string(64, 'a') + "\"\n";
  for (int i = 1; i <= 10; ++i) {
    const std::string before = "s" + std::to_string(i - 1);
    text += "let s" + std::to_string(i) + " = " + before + " + " + before + "\n";
  }
  const std::string block = "block b(x: [N, C], s: str) {\n  return x -> relu\n}\n";
  EXPECT_THAT(Checked(text + block + model("  y = x -> repeat 100_000 { b(s10) }\n"), {.max_steps = 100'000}).codes(),
              ElementsAre("XG0216"));
  const Checked shown(text + block + model("  y = x -> b(s10) -> nonsense\n"));
  EXPECT_LT(shown.rendered().size(), 2000U);
  std::string list = "let a = [s10";
  for (int i = 0; i < 2000; ++i) {
    list += ", s10";
  }
  EXPECT_THAT(codes(text + list + "]\n"), ElementsAre("XG0216"));
  // Ten thousand equal mistakes in one call are reported once.
  std::string call = "relu(x, a=1";
  for (int i = 0; i < 10'000; ++i) {
    call += ", a=1";
  }
  EXPECT_THAT(codes(model("  y = " + call + ")\n")), ElementsAre("XG0203"));
  EXPECT_THAT(codes("let p = 1 ^ 4096\nlet q = 2 ^ 100\nlet r = 2 ^ -3\ntest \"t\" {\n  expect p == 1\n"
                    "  expect q == 1267650600228229401496703205376\n  expect r == 1 / 8\n}\n"),
              IsEmpty());
}

TEST(NothingIgnored, ArrowsPassNumbersToFunctions) {
  EXPECT_THAT(
      codes("test \"t\" {\n  expect (3 -> max(4)) == 4\n  expect (4 -> sqrt) == 2\n  expect (-3 -> abs) == 3\n}\n"),
      IsEmpty());
}

TEST(NothingIgnored, FractionsAreRejectedWhereIntegersAreExpected) {
  EXPECT_THAT(codes("option b: int = a\noption a: float = 2.5\n"), ElementsAre("XG0205"));
  EXPECT_THAT(codes("option a: float = 2.5\noption b: int = a\n"), ElementsAre("XG0205"));
  EXPECT_THAT(codes("option n: int = 1e3\ntest \"t\" {\n  expect n == 1000\n}\n"), IsEmpty());
  EXPECT_THAT(codes(small_run("  seed = 1e3")), IsEmpty());
  EXPECT_THAT(codes(small_run("  seed = 1.5")), ElementsAre("XG0205"));
}

TEST(NothingIgnored, AModelOfATestIsBuiltOnce) {
  const std::string text = model("  y = x -> linear(10) as a\n  w = y -> relu\n") +
                           "test \"t\" {\n  p = net.y\n  q = net.w\n  expect shape(p) == shape(q)\n"
                           "  expect shape(net.y + net.w) == [N, 10]\n  expect params(net) == 650\n}\n";
  const Checked checked(text);
  EXPECT_THAT(checked.codes(), IsEmpty()) << checked.rendered();
  EXPECT_EQ(checked.file->tests[0].expectations, 3);
}

TEST(NothingIgnored, AModelCannotReadAnotherModelEvenInATest) {
  const std::string text =
      model("  y = x -> linear(10) as a\n") +
      "model other {\n  input x: f32[N, 64]\n  y = net.y -> relu\n  output y\n}\nrun r { model = net }\n";
  const std::string measure = "  expect params(other) > 0\n";
  const std::string ask = "  q = net.y\n  expect shape(q) == [N, 10]\n";
  for (const std::string& test : {measure + ask, ask + measure}) {
    EXPECT_THAT(codes(text + "test \"t\" {\n" + test + "}\n"), Each("XG0201"));
  }
}

TEST(NothingIgnored, ATupleGivesOneArgumentPerElement) {
  EXPECT_THAT(codes("test \"t\" {\n  expect ((3, 4) -> max) == 4\n}\n"), IsEmpty());
  EXPECT_THAT(codes("let a = max(1, \"a\")\n"), ElementsAre("XG0304"));
  EXPECT_THAT(Checked("let a = max([1, 2])\n").rendered(), Not(HasSubstr("`>`")));
}

TEST(NothingIgnored, ASpanOfWholeStepsIsAcceptedDespiteRounding) {
  EXPECT_THAT(codes(small_run("  epochs = 30\n  lr = [warmup(0 .. 0.1, 7% * 100 steps), cosine(0.1 .. 0)]")),
              IsEmpty());
}

TEST(NothingIgnored, UnknownNamesAreRejectedUnlessTheDefaultIsASymbol) {
  EXPECT_THAT(codes("block b(x: [N, C], drop = 0.1) { return x -> dropout(drop) }\n" + model("  y = b(x, drop=rte)\n")),
              ElementsAre("XG0201"));
}

TEST(Imports, MissingNamesAndFilesAreReportedOnce) {
  EXPECT_THAT(codes("from \"std/vision\" use bassic\n" + model("  y = x -> bassic\n")), ElementsAre("XG0201"));
  EXPECT_THAT(codes("import \"std/visions\" as v\nlet k = v.k\n" + model("  y = x -> v.foo\n")), ElementsAre("XG0207"));
  EXPECT_THAT(codes("import \"std/visions\"\n" + model("  y = x -> visions.foo\n")), ElementsAre("XG0207"));
}

TEST(Imports, AreReportedInSettingsIfMissing) {
  const std::string use = "from \"std/vision\" use k, opt\n";
  EXPECT_THAT(codes(use + small_run("  seed = k")), ElementsAre("XG0201", "XG0201"));
  std::string text = use + small_run();
  text.replace(text.find("sgd(momentum=0.9)"), 17, "opt(0.9)");
  EXPECT_THAT(codes(text), ElementsAre("XG0201", "XG0201"));
  EXPECT_THAT(codes("import \"std/visions\" as m\n" + small_run({}, "run r {\n  data = m.items\n}\n")),
              ElementsAre("XG0207"));
}

TEST(Edits, EditsCorrectTheFaultOfTheirDiagnostic) {
  EXPECT_THAT(Checked(model("  y = x -> relu // half\n")).rendered(), HasSubstr("~   y = x -> relu # half"));
  EXPECT_THAT(Checked("block c(x [N, C]) { return x }\n").rendered(), HasSubstr("~ block c(x: [N, C]) {"));
  EXPECT_THAT(Checked("let a = if 1 = 2 { 1 } else { 2 }\n").rendered(), HasSubstr("~ let a = if 1 == 2 {"));
  EXPECT_THAT(Checked("let a = f(rows=0:100)\n").rendered(), HasSubstr("~ let a = f(rows=0..100)"));
  // The text that is missing after an unclosed bracket is not reported as a second fault.
  EXPECT_THAT(codes(model("  y = relu(\n")), ElementsAre("XG0111"));
}

TEST(Edits, AMissingBraceIsReportedInTheDeclarationThatLacksIt) {
  const Checked checked(
      "train t {\n  eval {\n    every = 1 epoch\n}\n}\nblock b(x: [N, C]) {\n  return x\n\nlet a = 1\n");
  EXPECT_THAT(checked.rendered(), HasSubstr("test.xgraph:7:20"));
}

TEST(Uncalled, ABlockThatFitsMatchingParametersIsAccepted) {
  EXPECT_THAT(codes("block u(x: [N, T, D], side: int) {\n  return x -> reshape([N, D, side, side])\n}\n"), IsEmpty());
  EXPECT_THAT(codes("block r(x: [N, C], width: int) { return x -> residual { linear(4 * width) -> linear(width) } }\n"),
              IsEmpty());
  EXPECT_THAT(codes("block r(x: [N, C], width: int) { return x -> residual { linear(C + 1) } }\n"),
              ElementsAre("XG0301"));
}

}  // namespace
}  // namespace xrun::lang
