// Hostile texts give a diagnostic within limits of time and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/os/processor_time.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Limits, ExponentialExpansionsAreRejected) {
  std::string text = "block b0(x: [N, D]) { return x -> relu }\n";
  for (int i = 1; i <= 40; ++i) {
    text += "block b" + std::to_string(i) + "(x: [N, D]) { return x -> b" + std::to_string(i - 1) + " -> b" +
            std::to_string(i - 1) + " }\n";
  }
  text += "model m {\n  input x: f32[N, 8]\n  y = x -> b40\n  output y\n}\n";
  const Checked checked(text, {.max_nodes = 10'000, .max_steps = 100'000});
  EXPECT_THAT(checked.codes(), ElementsAre("XG0216"));
  EXPECT_TRUE(checked.diagnostics.all()[0].at_bound);
}

// Names grow with the depth of the blocks, and so does the memory of a graph with such names.
TEST(Limits, LongNamesCountForSeveralNodes) {
  const auto nodes_until_refused = [](const std::string& label) {
    const Checked checked(
        "model m {\n  input x: f32[N, 8]\n  y = x -> repeat 1_000 { relu as " + label + " }\n  output y\n}\n",
        {.max_nodes = 2'100});
    return checked.codes();
  };
  EXPECT_THAT(nodes_until_refused("a"), IsEmpty());
  EXPECT_THAT(nodes_until_refused(std::string(64, 'a')), ElementsAre("XG0216"));
}

// The size of a million copies is computed from the first copy, so that no time or memory is spent on the others.
TEST(Limits, CopiesAreCountedBeforeTheyAreMade) {
  const auto with = [](const std::string& stage) {
    return "model m {\n  input x: f32[N, 8]\n  y = x -> " + stage + "\n  output y\n}\n";
  };
  constexpr double kSeconds = 2;  // making the copies would take ten times as long
  const auto seconds_of = [](const std::string& text) {
    const Seconds begin = thread_processor_time();
    EXPECT_THAT(Checked(text).codes(), ElementsAre("XG0216"));
    return thread_processor_time() - begin;
  };
  EXPECT_LT(seconds_of(with("repeat 1_000_000 { bn }")), kSeconds);
  EXPECT_LT(seconds_of(with("repeat 2_000 { repeat 2_000 { bn } }")), kSeconds);
  EXPECT_LT(seconds_of("model m {\n  input x: f32[N, 8]\n  output x\n}\n"
                       "test \"t\" {\n  expect params(f32[N, 8] -> repeat 1_000_000 { bn }) == 1\n}\n"),
            kSeconds);
  // Tensors and parameters count as well: a batch norm is one operator with four tensors and three parameters.
  EXPECT_THAT(Checked(with("repeat 100 { bn }"), {.max_nodes = 1'300}).codes(), IsEmpty());
  EXPECT_THAT(Checked(with("repeat 100 { bn }"), {.max_nodes = 1'100}).codes(), ElementsAre("XG0216"));
}

// The model, its tests, and blocks that nothing calls have one common limit.
TEST(Limits, TestsAndUncalledBlocksCountWithTheModel) {
  const std::string block = "block deep(x: [N, D]) { return x -> repeat 100 { linear(D) } }\n";
  const std::string model = "model m {\n  input x: f32[N, 8]\n  y = x -> deep\n  output y\n}\n";
  const auto tests = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += "test \"" + std::to_string(i) + "\" {\n  expect params(m) == 7_200\n}\n";
    }
    return text;
  };
  constexpr int64_t kBudget = 60'000;  // a test takes 5,000 steps
  EXPECT_THAT(Checked(block + model + tests(5), {.max_steps = kBudget}).codes(), IsEmpty());
  EXPECT_THAT(Checked(block + model + tests(50), {.max_steps = kBudget}).codes(), ElementsAre("XG0216"));
}

TEST(Limits, ExponentialFunctionCallsAreRejected) {
  std::string text = "fn f0(x: int) = x\n";
  for (int i = 1; i <= 60; ++i) {
    const std::string before = "f" + std::to_string(i - 1) + "(x)";
    text += "fn f" + std::to_string(i) + "(x: int) = " + before + " - " + before + "\n";
  }
  const Checked checked(text + "let a = f60(1)\n", {.max_steps = 100'000});
  EXPECT_THAT(checked.codes(), ElementsAre("XG0216"));
}

TEST(Limits, RepeatCountsAreBounded) {
  const auto with = [](const std::string& count) {
    return "model m {\n  input x: f32[N, 8]\n  y = x -> repeat " + count + " { relu }\n  output y\n}\n";
  };
  EXPECT_THAT(Checked(with("1_000_000"), {.max_nodes = 1000}).codes(), ElementsAre("XG0216"));
  EXPECT_THAT(Checked(with("1G")).codes(), ElementsAre("XG0216"));
  EXPECT_THAT(Checked(with("-1")).codes(), ElementsAre("XG0304"));
  EXPECT_THAT(Checked(with("1.5")).codes(), ElementsAre("XG0304"));
  EXPECT_THAT(Checked(with("0")).codes(), IsEmpty());
}

TEST(Limits, ListsStringsAndNumbersDoNotGrowWithoutBound) {
  std::string lists = "let a0 = [1, 1]\n";
  std::string strings = "let s0 = \"0123456789\"\n";
  std::string numbers = "let n0 = 10\n";
  for (int i = 1; i <= 100; ++i) {
    const std::string now = std::to_string(i);
    const std::string before = std::to_string(i - 1);
    lists += "let a" + now + " = [a" + before + ", a" + before + "]\n";
    strings += "let s" + now + " = s" + before + " + s" + before + "\n";
    numbers += "let n" + now + " = n" + before + " * n" + before + "\n";
  }
  EXPECT_THAT(Checked(lists).codes(), ElementsAre("XG0216"));
  EXPECT_THAT(Checked(strings).codes(), ElementsAre("XG0216"));
  EXPECT_THAT(Checked(numbers).codes(), ElementsAre("XG0109"));
}

TEST(Limits, CircularDefaultsAreRejected) {
  EXPECT_THAT(Checked("fn f(a: int = f()) = a\nlet b = f()\n").codes(), ElementsAre("XG0208"));
  // Two functions call each other. Each of them is tried by itself and reported.
  EXPECT_THAT(Checked("fn f(a: int = g()) = a\nfn g(a: int = f()) = a\nlet b = f()\n").codes(),
              ElementsAre("XG0208", "XG0208"));
  EXPECT_THAT(Checked("fn f(a: int = f(1)) = a\nlet b = f()\n").codes(), IsEmpty());
  const auto chain = [](int length) {
    std::string text = "fn f0(a: int = 1) = a\n";
    for (int i = 1; i < length; ++i) {
      text += "fn f" + std::to_string(i) + "(a: int = f" + std::to_string(i - 1) + "()) = a\n";
    }
    return text + "let b = f" + std::to_string(length - 1) + "()\n";
  };
  EXPECT_THAT(Checked(chain(150)).codes(), IsEmpty());
  EXPECT_THAT(Checked(chain(3000)).codes(), ElementsAre("XG0106"));
}

TEST(Limits, DeepChainsOfDefinitionsAreRejected) {
  std::string lets = "let a0 = 1\n";
  std::string blocks = "block b0(x: [N, D]) { return x -> relu }\n";
  for (int i = 1; i <= 20'000; ++i) {
    lets = "let a" + std::to_string(i) + " = a" + std::to_string(i - 1) + " + 0\n" + lets;
    if (i <= 3000) {
      blocks += "block b" + std::to_string(i) + "(x: [N, D]) { return x -> b" + std::to_string(i - 1) + " }\n";
    }
  }
  EXPECT_THAT(Checked(lets).codes(), ::testing::Contains("XG0106"));
  EXPECT_THAT(Checked(blocks + "model m {\n  input x: f32[N, 8]\n  y = x -> b3000\n  output y\n}\n").codes(),
              ElementsAre("XG0106"));
}

TEST(Limits, ManyFaultsDoNotTakeLong) {
  std::string bindings = "model m {\n  input x: f32[N, 8]\n";
  std::string settings = "train t {\n";
  std::string lets;
  for (int i = 0; i < 50'000; ++i) {
    const std::string n = std::to_string(i);
    bindings += "  a" + n + " = x -> nothing" + n + "(b" + n + ")\n";
    settings += "  s" + n + " = " + n + "\n";
    lets += "let c" + n + " = d" + n + "\n";
  }
  const Checked checked(lets + bindings + "}\n" + settings + "}\n");
  EXPECT_FALSE(checked.file.has_value());
  EXPECT_LE(checked.diagnostics.all().size(), 500U);
}

TEST(Limits, DimensionsDoNotOverflow) {
  EXPECT_THAT(Checked("model m {\n  input x: f32[N, 1T, 1T]\n  output x\n}\n").codes(), ElementsAre("XG0302"));
  EXPECT_THAT(Checked("model m {\n  input x: f32[N, 0]\n  output x\n}\n").codes(), ElementsAre("XG0302"));
  EXPECT_THAT(Checked("model m {\n  input x: f32[3, N]\n  output x\n}\n").codes(), ElementsAre("XG0302"));
}

TEST(Limits, ErrorNodesOfTheParserCauseNoReports) {
  const Checked checked("model m {\n  input x: f32[N, 8]\n  y = x -> linear(\n  output y\n}\n");
  EXPECT_FALSE(checked.file.has_value());
  for (const std::string& code : checked.codes()) {
    EXPECT_EQ(code.substr(0, 4), "XG01") << checked.rendered();
  }
}

}  // namespace
}  // namespace xrun::lang
