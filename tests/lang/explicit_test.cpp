// `xrun show --explicit` writes every default into the text. The result must be the same run.
#include "lang/explicit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lang/elaborate/facts.h"
#include "lang/format/format.h"
#include "ops/op.h"
#include "tests/lang/checked.h"
#include "tests/support/golden.h"

namespace xrun::lang {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Explicit {
  std::string text;
  std::string digest;
  std::vector<std::string> codes;
};

// Returns the explicit text. `others` holds the files that the text imports, by path.
Explicit explicit_of(const std::string& path, const std::string& text, Texts others = {}, const std::string& run = {}) {
  others[path] = text;
  SourceMap sources;
  Diagnostics diagnostics;
  Facts facts;
  const auto checked =
      load_texts(path, others, sources, diagnostics, {.ops = &ops::registry(), .run = run, .facts = &facts});
  Explicit made;
  for (const Diagnostic& d : diagnostics.all()) {
    made.codes.push_back(d.code);
  }
  if (!checked) {
    ADD_FAILURE() << path << ": " << render(diagnostics.all().front(), sources);
    return made;
  }
  made.digest = checked->module.math_digest;
  made.text = format(path, explicit_text(*checked, facts, sources), sources, diagnostics).value_or("");
  return made;
}

// Expects that the explicit text passes the check, is the same run, and has no further defaults to write.
void expect_same_run(const std::string& path, const std::string& text, const Texts& others = {},
                     const std::string& run = {}) {
  SCOPED_TRACE(path);
  const Explicit first = explicit_of(path, text, others, run);
  const Explicit second = explicit_of(path, first.text, others, run);
  EXPECT_EQ(first.digest, second.digest) << first.text;
  EXPECT_EQ(first.codes, second.codes) << first.text;
  EXPECT_EQ(first.text, second.text);
}

TEST(Explicit, TheExplicitTextOfEveryModelIsTheSameRun) {
  Texts files;
  for (const std::string& name : test::golden_cases("../../models", ".xgraph")) {
    files[name.substr(name.rfind('/') + 1)] = test::read_source_file("tests/golden/" + name);
  }
  ASSERT_GE(files.size(), 10U);
  for (const auto& [name, text] : files) {
    expect_same_run(name, text, files);
  }
}

TEST(Explicit, WritesSettingsAndArguments) {
  const Explicit made =
      explicit_of("test.xgraph", "xgraph 1\n" + small_run("  checkpoint {\n    keep = 5\n  }\n",
                                                          "\nschedule s {\n  shard id {\n    over = 2\n  }\n}\n"));
  EXPECT_THAT(
      made.text,
      AllOf(HasSubstr("linear(4, bias=true, init=none) as embed"),
            HasSubstr("sgd(momentum=0.9, weight_decay=0, nesterov=false)"), HasSubstr("  norm_rows         = 8\n"),
            HasSubstr("synthetic([8], classes, samples=1000, seed=1, noise=0.5"),
            HasSubstr(
                "  checkpoint {\n    keep  = 5\n    every = 1 epoch\n    best  = none\n    dir   = \"ckpt/softmax\"\n"),
            HasSubstr("  shard id {\n    over        = 2\n    split       = classes\n    granularity = auto\n  }\n"),
            HasSubstr("  max_bad = 0.1%\n"), HasSubstr("  memory_limit  = auto\n")));
}

// Defaults of an optimizer may name its other parameters and options of its file.
TEST(Explicit, WritesTheValuesOfArgumentsOfOptimizers) {
  std::string text = "xgraph 1\n\nfrom \"lib.xgraph\" use mine\n\noption base: float = 0.25\n" + small_run("", "");
  const size_t at = text.find("sgd(momentum=0.9)");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 17, "mine(0.75)");
  const Texts others{{"lib.xgraph",
                      "xgraph 1\n\noption base: float = 0.5\n\noptimizer mine(mu, nu = mu, rho = base * 1) {\n"
                      "  weight = weight - lr * grad * mu * nu * rho\n}\n"}};
  expect_same_run("test.xgraph", text, others);
  EXPECT_THAT(explicit_of("test.xgraph", text, others).text, HasSubstr("mine(0.75, nu=0.75, rho=0.5)"));
}

// If a default follows from other settings, it is not written into declarations that the run does not name. A setting
// that is inherited is not overwritten.
TEST(Explicit, DeclarationsOutsideOfTheRunGetOnlyConstantDefaults) {
  const std::string text =
      "xgraph 1\n" +
      small_run("  seed = 7\n", "\ntrain large extends softmax {\n  batch = 4096\n}\n\nrun r {\n  train = large\n}\n");
  expect_same_run("test.xgraph", text);
  const std::string made = explicit_of("test.xgraph", text).text;
  const std::string base =
      made.substr(made.find("train softmax"), made.find("train large") - made.find("train softmax"));
  const std::string large = made.substr(made.find("train large"));
  EXPECT_THAT(base, AllOf(HasSubstr("  seed      = 7\n"), HasSubstr("  clip              = none\n"),
                          Not(HasSubstr("norm_rows")), Not(HasSubstr("dir "))));
  EXPECT_THAT(large, AllOf(HasSubstr("  norm_rows         = 64\n"), HasSubstr("dir   = \"ckpt/large\""),
                           Not(HasSubstr("seed "))));
  EXPECT_THAT(large, AllOf(HasSubstr("  model = net\n"), HasSubstr("  data  = items\n")));
}

TEST(Explicit, ADefaultIsWrittenAsAnExpressionOfOtherArguments) {
  const Explicit made =
      explicit_of("test.xgraph",
                  "xgraph 1\n\nblock down(x: [N, C, H, W], size: int) {\n"
                  "  return x -> max_pool(size + 1, stride=2) -> bn\n}\n\n"
                  "model m {\n  input x: f32[N, 3, 8, 8]\n\n  y = x -> down(2) -> conv(4, 3)\n  output y\n}\n");
  EXPECT_THAT(made.text, AllOf(HasSubstr("max_pool(size + 1, stride=2, pad=((size + 1) - 1) // 2)"),
                               HasSubstr("bn(momentum=0.1, eps=1e-5)"), HasSubstr("pad=3 // 2")));
}

}  // namespace
}  // namespace xrun::lang
