// Case 18: if a value is not finite and no update can be the cause, the advice names the operator.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/support/command.h"

namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using xrun::testing::CommandResult;
using xrun::testing::run_xrun;

struct Parts {
  std::string logits;
  std::string rate = "1e-6";
  std::string clip;
};

class Case18AdviceForValuesThatAreNotFinite : public ::testing::Test {
 protected:
  std::string fault_of(const Parts& parts) {
    directory.write("m.xgraph", fmt::format(R"(xgraph 1

pointwise naive(c, m = 0.5) = cos(acos(c) + m)

model m {{
  input x: f32[N, 8]

  {}
  output logits
}}

data d {{
  source train = synthetic([8], 4, 160)

  x = pixels
}}

train t {{
  batch     = 16
  steps     = 20
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = {}
  {}
}}
)",
                                            parts.logits, parts.rate, parts.clip));
    const CommandResult run = run_xrun({"train", "m.xgraph", "-C", fmt::format("run{}", ++runs_), "--progress", "none"},
                                       {.directory = directory.path()});
    EXPECT_EQ(run.exit, 5) << run.err;
    return run.err;
  }
  xrun::testing::TemporaryDirectory directory;

 private:
  int runs_ = 0;
};

TEST_F(Case18AdviceForValuesThatAreNotFinite, TheFirstStepNamesTheOperatorAndItsInput) {
  struct Row {
    const char* logits;
    const char* op;
  };
  for (const Row& row : {Row{"logits = x -> linear(8) -> log -> linear(4)", "log"},
                         {"z = x -> relu\n  logits = (z / z) -> linear(4)", "map"},
                         {"logits = x -> linear(8) -> sqrt -> linear(4)", "sqrt"},
                         {"logits = x -> exp -> exp -> exp -> exp -> linear(4)", "map"}}) {
    for (const char* clip : {"", "clip = norm(1)"}) {
      const std::string fault = fault_of({.logits = row.logits, .rate = "1e-6", .clip = clip});
      EXPECT_THAT(fault, HasSubstr("error[XG0810]"));
      EXPECT_THAT(fault, HasSubstr(fmt::format("` ({}) gives a value that is not finite, for row", row.op)));
      EXPECT_THAT(fault, HasSubstr(" of the batch of step 1\n"));
      EXPECT_THAT(fault, ContainsRegex("its input `[a-z_.0-9]+` ranges from [-0-9.e+]+ to [-0-9.e+]+"));
      EXPECT_THAT(fault, HasSubstr("no update has been made yet, so neither `train.lr` nor `train.clip` is the cause"));
      EXPECT_THAT(fault, Not(HasSubstr("lower `train.lr`")));
      EXPECT_THAT(fault, Not(HasSubstr("set `train.clip")));
    }
  }
}

TEST_F(Case18AdviceForValuesThatAreNotFinite, ARateOfZeroIsNeverTheCause) {
  const std::string fault = fault_of({.logits = "z = x -> relu\n  logits = (z / z) -> linear(4)", .rate = "0"});
  EXPECT_THAT(fault, Not(HasSubstr("lower `train.lr`")));
}

TEST_F(Case18AdviceForValuesThatAreNotFinite, ProposesALowerRateAndNoClipIfThereIsOne) {
  const std::string logits = "logits = x -> linear(8) -> relu -> linear(4)";
  const std::string clipped = fault_of({.logits = logits, .rate = "1e25", .clip = "clip = norm(1)"});
  EXPECT_THAT(clipped, HasSubstr("lower `train.lr`, or warm it up for longer; `train.clip` is set already"));
  const std::string free = fault_of({.logits = logits, .rate = "1e38"});
  EXPECT_THAT(free, HasSubstr("lower `train.lr`, warm it up for longer, or set `train.clip = norm(1)`"));
}

// acos(1) has no derivative: the loss is finite, and its gradient is not.
TEST_F(Case18AdviceForValuesThatAreNotFinite, TheAdviceForAMarginWithoutADerivativeNamesTheLoss) {
  directory.write("train.csv", "1,0\n-1,1\n2,0\n-2,1\n");
  directory.write("margin.xgraph", R"(xgraph 1

pointwise naive(c, m = 0.5) = cos(acos(c) + m)

model m {
  input x: f32[N, 1]

  feature = x * 1
  output feature

  head id = cosine_classifier(feature, 2)
}

data d {
  source train = csv("train.csv")

  x     = columns(0..1)
  label = column(1) -> as_index(2)
}

train t {
  batch     = 4
  steps     = 4
  loss      = margin_softmax(id, label, naive(m=0.5), 16)
  optimizer = sgd
  lr        = 1e-6
  clip      = norm(1, heads=true)
}
)");
  const CommandResult run = run_xrun({"train", "margin.xgraph", "--progress", "none"}, {.directory = directory.path()});
  EXPECT_EQ(run.exit, 5) << run.err;
  EXPECT_THAT(run.err, HasSubstr("margin_softmax"));
  EXPECT_THAT(run.err, HasSubstr("no update has been made yet, so neither `train.lr` nor `train.clip` is the cause"));
  EXPECT_THAT(run.err, Not(HasSubstr("lower `train.lr`")));
}

}  // namespace
