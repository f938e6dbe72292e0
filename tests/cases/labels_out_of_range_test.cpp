// Labels that are not class numbers are rejected with advice that helps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;

TEST(LabelsOutOfRange, MoreClassesAreNotProposedForALabelBelowZero) {
  TemporaryDirectory dir;
  std::string rows;
  for (int i = 0; i < 64; ++i) {
    rows += i == 5 ? "1,2,-1\n" : "1,2," + std::to_string(i % 3) + "\n";
  }
  dir.write("d.csv", rows);
  dir.write("m.xgraph", R"(xgraph 1

model m {
  input x: f32[N, 2]

  feature = x -> linear(4)
  output feature

  head id = cosine_classifier(feature, 3)
}

data d {
  source train = csv("d.csv")

  x     = columns(0..2)
  label = column(2) -> as_index(3)
}

train t {
  batch     = 16
  epochs    = 1
  loss      = softmax_ce(id, label, scale=16)
  optimizer = sgd
  lr        = 0.1
}
)");
  const auto run = run_xrun({"train", dir.path() + "/m.xgraph"}, {.directory = dir.path()});
  EXPECT_EQ(run.exit, 1) << run.err;
  EXPECT_THAT(run.err, HasSubstr("-1"));
  EXPECT_THAT(run.err, Not(HasSubstr("more classes")));
}

}  // namespace
