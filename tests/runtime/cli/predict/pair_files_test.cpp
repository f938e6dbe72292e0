// Training with a verification set, and `eval --on FILE` with one that the model does not mention.
#include "runtime/cli/predict/pair_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/runtime/data/pair_sets.h"

namespace xrun::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Words = std::vector<std::string>;

class PairFiles : public ::testing::Test {
 protected:
  CommandResult run(const Words& words) const { return run_xrun(words, {.directory = directory.path()}); }
  json eval(const Words& more) const {
    Words words{"eval", "ckpt/arc", "--format", "json", "--progress", "none"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  std::string fault(const Words& more) const {
    Words words{"eval", "ckpt/arc"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run(words);
    EXPECT_NE(result.exit, 0) << result.out;
    return result.err;
  }
  void train(const std::string& text) const {
    runtime::testing::write_faces(directory);
    directory.write("face.xgraph", text);
    const CommandResult trained = run({"train", "face.xgraph", "--progress", "plain"});
    ASSERT_EQ(trained.exit, 0) << trained.err;
  }
  // Trains a model without a verification set.
  void train_plain() const { train(runtime::testing::face_model("", "  metrics = [accuracy(id, label)]\n")); }

  TemporaryDirectory directory;
};

class PairSets : public PairFiles {
 protected:
  void SetUp() override {
    if (!runtime::testing::reads_pairs()) {
      GTEST_SKIP() << "this version has no reader of verification sets";
    }
  }
};

TEST_F(PairSets, AreVerifiedDuringTrainingAndLater) {
  train(runtime::testing::face_model(runtime::testing::kPairSource, runtime::testing::kPairMetrics));
  const CommandResult checked = run({"check", "face.xgraph", "--data"});
  EXPECT_EQ(checked.exit, 0) << checked.err;
  const json one = eval({"--on", "lfw", "--devices", "1"});
  EXPECT_EQ(one["verification"]["lfw"]["pairs"], 60);
  EXPECT_EQ(one["verification"]["lfw"]["different"], 20);
  EXPECT_EQ(one["verification"]["lfw"]["tar_at_far"].size(), 2U);
  EXPECT_EQ(one["metrics"]["lfw"], one["verification"]["lfw"]["accuracy"]);
  EXPECT_GT(one["metrics"]["lfw"], 0.6) << "the greys of the classes are far apart";
  EXPECT_EQ(eval({"--on", "lfw", "--devices", "3"}), one);
  EXPECT_EQ(eval({"--on", "lfw", "--set", "train.batch=48"}), one);

  const json both = eval({"--on", "lfw", "lfw.bin"});
  EXPECT_EQ(both["verification"]["lfw_2"], one["verification"]["lfw"]) << "the file of the source, under another key";

  const CommandResult text = run({"eval", "ckpt/arc", "--roc", "roc.json"});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("  lfw   60 pairs   accuracy "));
  EXPECT_THAT(text.out, HasSubstr("20 pairs of different classes\n"));
  EXPECT_EQ(json::parse(read_file(directory.path() + "/roc.json"))["roc"]["lfw"]["accuracy"], one["metrics"]["lfw"]);
}

TEST_F(PairSets, AreVerifiedThoughTheyAreDeclaredAndNoMetricNamesThem) {
  train(runtime::testing::face_model(runtime::testing::kPairSource + "  source cfp   = pairs(\"lfw.bin\")\n",
                                     runtime::testing::kPairMetrics));
  const json one = eval({"--on", "cfp"});
  EXPECT_EQ(one["metrics"].size(), 1U) << "the accuracy over classes is not measured on pairs";
  EXPECT_EQ(one["verification"]["cfp"], eval({"--on", "lfw"})["verification"]["lfw"]);
  const CommandResult drawn = run({"eval", "ckpt/arc", "--on", "cfp", "--roc", "roc.json"});
  EXPECT_EQ(drawn.exit, 0) << drawn.err;
}

TEST_F(PairSets, ASourceThatNoMetricMeasuresIsRejected) {
  train(runtime::testing::face_model(runtime::testing::kPairSource,
                                     "  eval {\n    lfw = verification(lfw, feature)\n  }\n"));
  const std::string message = fault({"--on", "lfw", "train"});
  EXPECT_THAT(message, HasSubstr("error[XG0413]: no metric measures the source `train`"));
  EXPECT_THAT(message, HasSubstr("add one to `eval`, or name a file of pairs: --on lfw.bin"));
}

TEST_F(PairSets, NeedNoEntryInTheModel) {
  train_plain();
  const json one = eval({"--on", "lfw.bin", "--devices", "1"});
  EXPECT_EQ(one["verification"]["lfw"]["pairs"], 60);
  EXPECT_EQ(one["verification"]["lfw"]["folds"], 10);
  EXPECT_EQ(one["metrics"].size(), 1U) << "the accuracy over classes is not measured on pairs";
  EXPECT_EQ(eval({"--on", "./lfw.bin", "--devices", "2", "--feature", "feature"})["verification"], one["verification"]);
  EXPECT_EQ(eval({"--on", "lfw.bin", "--folds", "6"})["verification"]["lfw"]["folds"], 6);
  const CommandResult drawn = run({"eval", "ckpt/arc", "--on", "lfw.bin", "--no-flip", "--roc", "roc.svg"});
  EXPECT_EQ(drawn.exit, 0) << drawn.err;
  EXPECT_THAT(read_file(directory.path() + "/roc.svg"), HasSubstr("<polyline"));
  EXPECT_THAT(fault({"--on", "lfw.bin", "--folds", "61"}), HasSubstr("error[XG0214]"));
  EXPECT_THAT(fault({"--on", "missing.bin"}), HasSubstr("error[XG0401]"));
}

TEST_F(PairSets, AFileWithTheNameOfASourceHasAKeyOfItsOwn) {
  train(runtime::testing::face_model("  source lfw   = folder(\"train\")\n", "  metrics = [accuracy(id, label)]\n"));
  const json both = eval({"--on", "lfw", "lfw.bin"});
  EXPECT_EQ(both["metrics"].size(), 2U);
  EXPECT_TRUE(both["metrics"].contains("lfw"));
  EXPECT_EQ(both["verification"].size(), 1U);
  EXPECT_EQ(both["metrics"]["lfw_2"], both["verification"]["lfw_2"]["accuracy"]);
}

TEST_F(PairSets, TemplatesAreVerifiedDuringTrainingAndLater) {
  runtime::testing::write_templates(directory);
  train(runtime::testing::face_model(runtime::testing::kTemplateSource, runtime::testing::kTemplateMetrics));
  const json one = eval({"--on", "ijbc", "--devices", "1"});
  EXPECT_EQ(one["verification"]["ijbc"]["pairs"], 90);
  EXPECT_EQ(one["verification"]["ijbc"]["different"], 80);
  EXPECT_EQ(one["verification"]["ijbc"]["folds"], 1);
  EXPECT_GT(one["metrics"]["ijbc"], 0.9) << "the greys of the classes are far apart";
  EXPECT_EQ(eval({"--on", "ijbc", "--devices", "3"}), one);
  EXPECT_EQ(eval({"--on", "ijbc", "--set", "train.batch=48"}), one);
  const CommandResult shown = run({"data", "show", "pairs(\"pairs.txt\", templates=\"t.txt\")"});
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("pairs: 90 pairs of 20 templates, 10 of the same person; 80 pictures"));
}

TEST_F(PairSets, TemplatesThatDoNotFitEndARunBeforeItsFirstStep) {
  runtime::testing::write_faces(directory);
  std::string pictures;
  for (int i = 0; i < 50'000; ++i) {
    pictures += fmt::format("train/p0/0.png {} {}\n", i, i);
  }
  directory.write("t.txt", pictures);
  directory.write("pairs.txt", "0 1 1\n0 2 0\n");
  std::string text =
      runtime::testing::face_model(runtime::testing::kTemplateSource, runtime::testing::kTemplateMetrics);
  text.replace(text.find("linear(8)"), 9, "linear(4096)");
  directory.write("face.xgraph", text + "\ncluster c {\n  node {\n    cores = 2\n    memory = 1GiB\n  }\n}\n");
  for (const char* command : {"train", "plan"}) {
    const CommandResult result = run({command, "face.xgraph"});
    EXPECT_EQ(result.exit, 3) << command;
    EXPECT_THAT(result.err, HasSubstr("error[XG0601]: does not fit: with its data the run needs 1.6 GiB"));
    EXPECT_THAT(result.err, HasSubstr("an evaluation keeps 1.5 GiB for the features of templates"));
  }
}

TEST_F(PairSets, WithFewerPairsThanFoldsEndARunBeforeItsFirstStep) {
  runtime::testing::write_faces(directory);
  const std::string picture = runtime::testing::png(6, 100);
  directory.write("lfw.bin", runtime::testing::pickled_pairs({picture, picture, picture, picture}, {true, false}));
  directory.write("face.xgraph",
                  runtime::testing::face_model(runtime::testing::kPairSource, runtime::testing::kPairMetrics));
  for (const Words& words :
       {Words{"train", "face.xgraph"}, {"plan", "face.xgraph"}, {"check", "face.xgraph", "--data"}}) {
    const CommandResult result = run(words);
    EXPECT_NE(result.exit, 0) << words[0];
    EXPECT_THAT(result.err, HasSubstr("error[XG0214]: `verification` divides the pairs of source `lfw` into 10 folds"));
    EXPECT_THAT(result.err, HasSubstr("write folds=2 or less"));
  }
}

TEST_F(PairFiles, FlagsThatDoNotApplyAreRejected) {
  train_plain();
  for (const Words& flag : {Words{"--feature", "feature"}, {"--folds", "5"}, {"--no-flip"}}) {
    EXPECT_THAT(fault(flag), HasSubstr("error[XG0906]: `--feature`, `--folds` and `--no-flip` are for files of pairs"));
  }
  EXPECT_THAT(fault({"--on", "lfw.bin", "--feature", "logits"}),
              HasSubstr("error[XG0903]: the model has no output `logits`"));
  EXPECT_THAT(fault({"--on", "nothing"}), HasSubstr("error[XG0413]"));
  EXPECT_THAT(fault({"--roc", "roc.json"}), HasSubstr("error[XG0"));
}

}  // namespace
}  // namespace xrun::testing
