// Cases 01, 03 and 17: files and directories in a folder of pictures that do not belong to its classes.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cases/case_files.h"

namespace {

using testing::HasSubstr;
using testing::Not;
using xrun::testing::ppm_of;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;
using xrun::testing::write_animals;
using xrun::testing::write_picture;
namespace fs = std::filesystem;

// Returns the model's text. `sources` holds statements of `data`.
std::string model_of_animals(const std::string& sources, const std::string& classes = "10",
                             const std::string& label = "label -> as_index(10)") {
  return R"(xgraph 1

model m {
  input image: f32[N, 3, 8, 8]

  logits = image -> conv(8, 3, stride=2) -> bn -> relu -> global_avg_pool -> linear()" +
         classes + R"()
  output logits
}

data d {
)" + sources +
         R"(
  image = file -> decode(8) -> normalize(mean=127.5, std=127.5)
  label = )" +
         label + R"(
}

train t {
  batch     = 8
  steps     = 80
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = adamw
  lr        = 0.03
}
)";
}

class Animals : public ::testing::Test {
 protected:
  xrun::testing::CommandResult run(const std::vector<std::string>& words) const {
    return run_xrun(words, {.directory = dir.path()});
  }
  TemporaryDirectory dir;
};

using Case01StrayPictureInTrain = Animals;
using MoreClassDirectoriesThanTheHead = Animals;
using Case03ResumeAfterStrayPicture = Animals;
using Case17HiddenDirectoriesAreClasses = Animals;

TEST_F(Case01StrayPictureInTrain, IsSkippedWithAWarningThatNamesIt) {
  write_animals(dir, "train", 50);
  write_animals(dir, "test", 4);
  dir.write("m.xgraph", model_of_animals("  source train = folder(\"train\")\n  source test  = folder(\"test\")\n"));
  write_picture(dir, "train/overview.ppm", 200, 40, 40, 1);
  const char* warning = "1 picture is left out, since it is in no class directory: overview.ppm";
  const auto check = run({"check", "--data", "m.xgraph"});
  EXPECT_EQ(check.exit, 0) << check.err;
  EXPECT_THAT(check.err, HasSubstr(warning));
  EXPECT_THAT(check.out, HasSubstr("folder: 150 images, 3 classes, 1 picture left out"));
  EXPECT_THAT(run({"plan", "--dry-run", "m.xgraph"}).err, HasSubstr(warning));
  const auto train = run({"train", "m.xgraph", "--progress", "plain"});
  ASSERT_EQ(train.exit, 0) << train.err;
  EXPECT_THAT(train.err, HasSubstr(warning));
  EXPECT_THAT(run({"eval", "ckpt/t"}).out, HasSubstr("100"));
  EXPECT_THAT(run({"predict", "ckpt/t", "test/cat/1.ppm", "--topk", "1"}).out, HasSubstr("   cat "));
  // The stray picture of the evaluated source is also left out.
  write_picture(dir, "test/overview.ppm", 40, 40, 200, 1);
  const auto eval = run({"eval", "ckpt/t", "--per-class"});
  EXPECT_EQ(eval.exit, 0) << eval.err;
  EXPECT_THAT(eval.err, HasSubstr("source `test`: 1 picture is left out"));
}

TEST_F(Case01StrayPictureInTrain, IsASampleInAFolderWithoutClassDirectories) {
  write_animals(dir, "train", 50);
  write_picture(dir, "unsorted/1.ppm", 200, 40, 40, 1);
  write_picture(dir, "unsorted/2.ppm", 40, 40, 200, 1);
  dir.write("m.xgraph",
            model_of_animals("  source train = folder(\"train\")\n  source new   = folder(\"unsorted\")\n"));
  const auto measured = run({"train", "m.xgraph", "--progress", "none"});
  EXPECT_EQ(measured.exit, 1);
  EXPECT_THAT(measured.err, HasSubstr("the samples of the source `new` have no classes to measure them by"));
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none", "--set", "train.metrics=[]"}).exit, 0);
  for (const std::vector<std::string>& subject :
       {std::vector<std::string>{"unsorted"}, {"--source", "new", "--rows", "0..2"}}) {
    std::vector<std::string> words{"predict", "ckpt/t"};
    words.insert(words.end(), subject.begin(), subject.end());
    const auto predict = run(words);
    EXPECT_EQ(predict.exit, 0) << predict.err;
    EXPECT_THAT(predict.out, HasSubstr("1.ppm   probabilities   cat "));
    EXPECT_THAT(predict.out, HasSubstr("2.ppm   probabilities   owl "));
    EXPECT_EQ(predict.err, "");
  }
}

TEST_F(Case03ResumeAfterStrayPicture, GoesOnWithTheSameClasses) {
  write_animals(dir, "train", 50);
  dir.write("m.xgraph", model_of_animals("  source train = folder(\"train\")\n"));
  ASSERT_EQ(run({"train", "m.xgraph", "--steps", "40", "--progress", "none"}).exit, 0);
  write_picture(dir, "train/overview.ppm", 200, 40, 40, 1);
  const auto resumed = run({"train", "m.xgraph", "--progress", "plain"});
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("left out, since it is in no class directory: overview.ppm"));
  EXPECT_THAT(resumed.err, HasSubstr(" step=80 "));
  const auto predict = run({"predict", "ckpt/t", "train/cat/2.ppm", "train/owl/2.ppm", "--topk", "1"});
  EXPECT_THAT(predict.out, HasSubstr("train/cat/2.ppm   probabilities   cat "));
  EXPECT_THAT(predict.out, HasSubstr("train/owl/2.ppm   probabilities   owl "));
}

TEST_F(Case17HiddenDirectoriesAreClasses, AreSkippedCountedAndNamed) {
  write_animals(dir, "train", 50);
  write_animals(dir, "test", 4);
  dir.write("m.xgraph", model_of_animals("  source train = folder(\"train\")\n  source test  = folder(\"test\")\n"));
  const std::string made[] = {".ipynb_checkpoints", "cat/.ipynb_checkpoints", ".thumbnails", "cat/@eaDir",
                              "lost+found",         "dog/__pycache__",        "#recycle"};
  for (const std::string& tool : made) {
    write_picture(dir, "train/" + tool + "/sub/1-checkpoint.ppm", 200, 40, 40, 1);
    const auto check = run({"check", "--data", "m.xgraph"});
    EXPECT_EQ(check.exit, 0) << tool << check.err;
    EXPECT_THAT(check.err, HasSubstr("1 directory is left out, since hidden directories and those of tools hold no "
                                     "classes: " +
                                     tool));
    EXPECT_THAT(check.out, HasSubstr("folder: 150 images, 3 classes, 1 directory left out")) << tool;
    fs::remove_all(dir.path() + "/train/" + tool);
  }
  write_picture(dir, "test/.thumbnails/1.ppm", 200, 40, 40, 1);
  const auto train = run({"train", "m.xgraph", "--progress", "plain"});
  ASSERT_EQ(train.exit, 0) << train.err;
  EXPECT_THAT(train.err, HasSubstr("source `test`: 1 directory is left out"));
  const auto predict = run({"predict", "ckpt/t", "test"});
  EXPECT_EQ(predict.exit, 0) << predict.err;
  EXPECT_THAT(predict.out, Not(HasSubstr(".thumbnails")));
  EXPECT_THAT(predict.out, HasSubstr("test/cat/1.ppm   probabilities   cat "));
  EXPECT_THAT(predict.err, HasSubstr("1 directory is left out"));
  EXPECT_THAT(predict.err, HasSubstr("test/.thumbnails"));
  fs::rename(dir.path() + "/test/.thumbnails", dir.path() + "/new");
  fs::create_directories(dir.path() + "/only/");
  fs::rename(dir.path() + "/new", dir.path() + "/only/.cache");
  const auto nothing = run({"predict", "ckpt/t", "only"});
  EXPECT_EQ(nothing.exit, 1);
  EXPECT_THAT(nothing.err, HasSubstr("there are no pictures below only"));
  EXPECT_THAT(nothing.err, HasSubstr("only/.cache"));
}

TEST_F(MoreClassDirectoriesThanTheHead, AreOneErrorThatNamesTheFirst) {
  write_animals(dir, "train", 50);
  const std::string source = "  source train = folder(\"train\")\n";
  for (const char* label : {"label -> as_index(2)", "label"}) {
    dir.write("m.xgraph", model_of_animals(source, "2", label));
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"check", "--data"}, {"plan", "--dry-run"}, {"train"}}) {
      std::vector<std::string> all = words;
      all.push_back("m.xgraph");
      const auto result = run(all);
      EXPECT_EQ(result.exit, 1) << words[0] << label;
      const std::string message = "label 2 does not fit a head with 2 classes: `owl` is the first class beyond them";
      EXPECT_THAT(result.err, HasSubstr(message)) << label;
      EXPECT_EQ(result.err.find("error["), result.err.rfind("error[")) << result.err;
    }
  }
  // A class is not counted if none of its samples is read.
  dir.write("m.xgraph", model_of_animals("  source train = folder(\"train\", match=\"{1..3}.ppm\")\n", "2",
                                         "label -> as_index(2)"));
  EXPECT_EQ(run({"check", "--data", "m.xgraph"}).exit, 1);
  for (int i = 1; i <= 3; ++i) {
    fs::remove(dir.path() + "/train/owl/" + std::to_string(i) + ".ppm");
  }
  EXPECT_EQ(run({"check", "--data", "m.xgraph"}).exit, 0);
}

}  // namespace
