// xrun warns before and during training if the active classes hold few classes besides the labels.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;

std::string model_of(int classes, const std::string& batch, const std::string& active, const std::string& more = "") {
  return fmt::format(R"(xgraph 1

model m {{
  input x: f32[N, 8]

  feature = x -> linear(16)
  output feature

  head id = cosine_classifier(feature, {0})
}}

data d {{
  source train = synthetic([8], {0}, {0})

  x = pixels
}}

train t {{
  batch          = {1}
  epochs         = 4
  loss           = softmax_ce(id, label, scale=2)
  optimizer      = sgd
  lr             = 0.01
  active_classes = {2}
  {3}
}}
)",
                     classes, batch, active, more);
}

class FewOtherActiveClasses : public testing::Test {
 protected:
  auto run(const std::string& command, const std::string& text, std::vector<std::string> more = {}) {
    directory.write("m.xgraph", text);
    more.insert(more.begin(), {command, "m.xgraph"});
    return run_xrun(more, {.directory = directory.path()});
  }
  TemporaryDirectory directory;
};

TEST_F(FewOtherActiveClasses, AreReportedWithTheirNumbersAndABetterSetting) {
  const std::string knn = "knn(neighbours=8, active={}, rebuild=1 epoch)";
  const std::string text = model_of(3488, "256", fmt::format(fmt::runtime(knn), "10%"));
  for (const char* command : {"check", "plan"}) {
    const auto result =
        run(command, text,
            std::string(command) == "plan" ? std::vector<std::string>{"--dry-run"} : std::vector<std::string>());
    EXPECT_EQ(result.exit, 0) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("warning[XG0519]"), HasSubstr("349 of the 3488 classes of `id` are active"),
                                  HasSubstr("leaves 93 for other classes"),
                                  HasSubstr("write active=30% or more, or batch = 87 or less")))
        << command;
  }
  EXPECT_THAT(run("train", text, {"--steps", "1", "--progress", "none"}).err, HasSubstr("warning[XG0519]"));
  EXPECT_EQ(run("check", model_of(3488, "256", fmt::format(fmt::runtime(knn), "30%"))).err, "");
  EXPECT_EQ(run("check", model_of(3488, "87", fmt::format(fmt::runtime(knn), "10%"))).err, "");
}

// The setting may be a share or a number of sampled classes, and batches may be accumulated. If a batch is too large,
// the advice is to use all classes.
TEST_F(FewOtherActiveClasses, AreReportedForEachFormOfTheSetting) {
  EXPECT_THAT(run("check", model_of(1000, "100", "sample(15%)")).err,
              AllOf(HasSubstr("XG0519"), HasSubstr("write p=40% or more, or batch = 37 or less")));
  EXPECT_THAT(run("check", model_of(1000, "100", "sample(150)")).err, HasSubstr("write p=400 or more"));
  EXPECT_THAT(run("check", model_of(1000, "25", "sample(15%)", "grad_accumulation = 4")).err,
              AllOf(HasSubstr("a step of 100 samples"), Not(HasSubstr("or batch ="))));
  EXPECT_THAT(run("check", model_of(1000, "300", "sample(50%)")).err, HasSubstr("write active_classes = all"));
  EXPECT_EQ(run("check", model_of(1000, "100", "sample(40%)")).err, "");
  EXPECT_EQ(run("check", model_of(1000, "1000", "sample(100%)")).err, "");
  EXPECT_EQ(run("check", model_of(1000, "100", "all")).err, "");
}

// With a flat softmax, 20 % of the classes have about 20 % of the softmax, which is less than half.
TEST_F(FewOtherActiveClasses, WarnOnceIfTheirSoftmaxShareStaysBelowAHalf) {
  const auto low =
      run("train", model_of(160, "8", "sample(20%)"), {"--progress", "plain", "--devices", "1", "--threads", "1"});
  EXPECT_EQ(low.exit, 0) << low.err;
  const std::string all = low.err + low.out;
  EXPECT_THAT(all, AllOf(HasSubstr("XG0847"), HasSubstr("the active classes of `id` have ")));
  EXPECT_EQ(all.find("XG0847"), all.rfind("XG0847")) << all;
  const auto high = run("train", model_of(160, "8", "sample(80%)"),
                        {"--progress", "plain", "--devices", "1", "--threads", "1", "-C", "b"});
  EXPECT_EQ(high.exit, 0) << high.err;
  EXPECT_THAT(high.err + high.out, Not(HasSubstr("XG0847")));
  // Two epochs give two measurements, which are too few for a warning.
  const auto few =
      run("train", model_of(160, "8", "sample(20%)"),
          {"--progress", "plain", "--devices", "1", "--threads", "1", "--set", "train.epochs=2", "-C", "c"});
  EXPECT_THAT(few.err + few.out, Not(HasSubstr("XG0847")));
}

}  // namespace
