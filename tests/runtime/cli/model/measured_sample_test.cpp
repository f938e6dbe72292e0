// The time of a training sample in plans with measured costs.
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/runtime/data/data_files.h"
#include "tests/runtime/formats/pictures/jpeg_files.h"
#include "tests/support/command.h"

namespace xrun::testing {
namespace {

class MeasuredSample : public runtime::testing::Files {
 protected:
  void SetUp() override {
    Files::SetUp();
    for (int i = 0; i < 12; ++i) {
      write(std::string("train/") + (i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".jpg",
            runtime::testing::jpeg_file({.height = 60, .width = 80}, static_cast<uint64_t>(i)));
    }
    model_ = write("m.xgraph", R"(xgraph 1
model m {
  input x: f32[N, 3, 8, 8]
  logits = x -> flatten -> linear(2)
  output logits
}
data d {
  source train = folder(["train"])
  x     = file -> decode(8) -> random_flip -> normalize(mean=127.5, std=127.5)
  label = label -> as_index(2)
}
train t {
  batch     = 4
  norm_rows = 1
  epochs    = 1
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.01
}
)");
  }

  // Returns the predicted processor time of the loader in a step.
  double loader(const std::string& cost) {
    const CommandResult made = run_xrun({"plan", model_, "--dry-run", "--cost", cost, "--format", "json"},
                                        {.environment = {{"XDG_CACHE_HOME", (root_ / "cache").string()}}});
    EXPECT_EQ(made.exit, 0) << made.err;
    return made.exit == 0 ? nlohmann::json::parse(made.out).at("predicted").at("loader_core_seconds").get<double>() : 0;
  }

  std::string model_;
};

// The formula counts stages and numbers of the row. The pictures have 25 times as many pixels, and have to be decoded.
TEST_F(MeasuredSample, IncludesTheDecodingOfPictures) {
  const double formula = loader("analytic");
  EXPECT_GT(formula, 0);
  EXPECT_LT(formula, 4 * 1e-5);
  EXPECT_GT(loader("measured"), 5 * formula);
}

TEST_F(MeasuredSample, TheSecondPlanHasTheTimeOfTheFirst) { EXPECT_EQ(loader("measured"), loader("measured")); }

TEST_F(MeasuredSample, OtherDataIsMeasuredAgain) {
  const double before = loader("measured");
  write("train/a/12.jpg", runtime::testing::jpeg_file({.height = 600, .width = 800}, 1));
  EXPECT_GT(loader("measured"), 1.5 * before);
}

TEST_F(MeasuredSample, TheFormulaIsUsedWhereTheDataIsMissingOrBroken) {
  const double formula = loader("analytic");
  for (int i = 0; i < 12; ++i) {
    write(std::string("train/") + (i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".jpg", "no picture");
  }
  EXPECT_EQ(loader("measured"), formula);
  std::filesystem::remove_all(root_ / "train");
  EXPECT_EQ(loader("measured"), formula);
}

}  // namespace
}  // namespace xrun::testing
