// Cases 07, 08, 10, 20, 23 and 27: each label and each text input has its own classes, which are identified by their
// names.
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cases/case_files.h"
#include "tests/support/command.h"

namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using xrun::testing::CommandResult;
using xrun::testing::ppm_of;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;
using xrun::testing::write_animals;
using xrun::testing::write_picture;

class Classes : public ::testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& words) { return run_xrun(words, {.directory = dir_.path()}); }
  // Runs the command, expects it to succeed, and returns its output.
  std::string succeed(const std::vector<std::string>& words) {
    const auto result = run(words);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.out;
  }

  // Returns a table of animals of three species and two families. Their colour does not depend on the species.
  static std::string animals(int rows, const std::string& header = "a,b,c,e,color,species,family\n") {
    constexpr const char* kColors[] = {"red", "white", "blue", "green"};
    constexpr const char* kSpecies[] = {"ant", "bee", "cow"};
    constexpr const char* kFamilies[] = {"insect", "insect", "mammal"};
    std::string text = header;
    for (int i = 0; i < rows; ++i) {
      const int species = i % 3;
      for (int column = 0; column < 4; ++column) {
        text += fmt::format("{:.3f},", (column == species ? 2.0 : -1.0) + 0.3 * std::sin(1.3 * i + column));
      }
      text += fmt::format("{},{},{}\n", kColors[i % 4], kSpecies[species], kFamilies[species]);
    }
    return text;
  }

  void write_pictures_model(const std::string& more = "", int classes = 10) {
    dir_.write("m.xgraph", fmt::format(R"(xgraph 1

model m {{
  input image: f32[N, 3, 8, 8]

  logits = image -> conv(8, 3, stride=2) -> bn -> relu -> global_avg_pool -> linear({0})
  output logits
}}

data d {{
  source train = folder("train")
  {1}

  image = file -> decode(8) -> normalize(mean=127.5, std=127.5)
  label = label -> as_index({0})
}}

train t {{
  batch     = 8
  steps     = 80
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = adamw
  lr        = 0.03
}}
)",
                                       classes, more));
  }

  TemporaryDirectory dir_;
};

using Case07TwoTextLabels = Classes;

TEST_F(Case07TwoTextLabels, EachLabelHasItsOwnClasses) {
  dir_.write("train.csv", animals(36));
  dir_.write("test.csv", animals(18));
  dir_.write("m.xgraph", R"(xgraph 1

model m {
  input x: f32[N, 4]

  h = x -> linear(8) -> relu
  output h

  head id     = classifier(h, 3)
  head family = classifier(h, 2)
}

data d {
  source train = csv("train.csv", header=true)
  source test  = csv("test.csv", header=true)

  x     = columns(0..4)
  label = column("species")
  group = column("family")
}

train t {
  batch     = 12
  steps     = 100
  loss      = softmax_ce(id, label) + softmax_ce(family, group)
  metrics   = [accuracy(id, label), accuracy(family, group)]
  optimizer = adamw
  lr        = 0.03
}
)");
  succeed({"check", "--data", "m.xgraph"});
  succeed({"train", "m.xgraph", "--progress", "none"});
  const std::string measured = succeed({"eval", "ckpt/t"});
  EXPECT_THAT(measured, HasSubstr("100.00 %"));
  EXPECT_THAT(measured, Not(HasSubstr(" 0.00 %")));
  // `eval` prints a table for each head, with the names of that head's classes.
  const std::string tables = succeed({"eval", "ckpt/t", "--per-class", "--confusion", "pairs.csv"});
  EXPECT_THAT(tables, HasSubstr("\ntest, id, 3 classes with samples, the worst first\n"));
  EXPECT_THAT(tables, HasSubstr("\ntest, family, 2 classes with samples, the worst first\n"));
  EXPECT_THAT(xrun::testing::read_file(dir_.path() + "/pairs.csv"), HasSubstr("test,0,insect,0,insect,12,family\n"));
  // `predict` gives the results of both heads, each with the names of its own classes.
  const std::string predicted = succeed({"predict", "ckpt/t", "--source", "test", "--rows", "0..3", "--topk", "1"});
  EXPECT_THAT(predicted, HasSubstr("test.csv:2   id   probabilities   ant"));
  EXPECT_THAT(predicted, HasSubstr("test.csv:2   family   probabilities   insect"));
  EXPECT_THAT(predicted, HasSubstr("test.csv:4   family   probabilities   mammal"));
  EXPECT_THAT(succeed({"predict", "ckpt/t", "--source", "test", "--rows", "0..1", "--format", "json"}),
              HasSubstr("\"head\":\"family\""));
}

using Case08TextInputNamesThePredictions = Classes;

TEST_F(Case08TextInputNamesThePredictions, PredictionsUseTheNamesOfTheLabel) {
  dir_.write("train.csv", animals(36));
  dir_.write("m.xgraph", R"(xgraph 1

model m {
  input x: f32[N, 4]
  input color: index(4)[N]

  logits = concat(x, color -> embed(4, 2), axis=1) -> linear(3)
  output logits
}

data d {
  source train = csv("train.csv", header=true)
  source test  = csv("test.csv", header=true)

  x     = columns(0..4)
  color = column("color") -> as_index(4)
  label = column("species")
}

train t {
  batch     = 12
  steps     = 100
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = adamw
  lr        = 0.03
}
)");
  // The test table has three of the four colours and lacks a species, so numbering its own texts would give other
  // numbers.
  dir_.write("test.csv", "a,b,c,e,color,species,family\n-1,2,-1,-1,white,bee,insect\n-1,-1,2,-1,red,cow,mammal\n");
  succeed({"train", "m.xgraph", "--progress", "none"});
  EXPECT_THAT(succeed({"eval", "ckpt/t"}), HasSubstr("100.00 %"));
  const std::string predicted = succeed({"predict", "ckpt/t", "--source", "train", "--rows", "0..3", "--topk", "1"});
  EXPECT_THAT(predicted, HasSubstr("probabilities   ant"));
  EXPECT_THAT(predicted, HasSubstr("probabilities   bee"));
  EXPECT_THAT(predicted, HasSubstr("probabilities   cow"));
  EXPECT_THAT(predicted, Not(HasSubstr("red")));
  // A table without labels can be predicted. A colour that training did not have is rejected.
  dir_.write("new.csv", "a,b,c,e,color\n-1,-1,2,-1,white\n2,-1,-1,-1,green\n");
  const std::string fresh = succeed({"predict", "ckpt/t", "new.csv", "--topk", "1"});
  EXPECT_THAT(fresh, HasSubstr("new.csv:2   probabilities   cow"));
  EXPECT_THAT(fresh, HasSubstr("new.csv:3   probabilities   ant"));
  EXPECT_THAT(succeed({"predict", "ckpt/t", "new.csv", "--rows", "1..2", "--topk", "1"}), Not(HasSubstr("cow")));
  dir_.write("odd.csv", "a,b,c,e,color\n-1,-1,2,-1,whyte\n");
  const auto refused = run({"predict", "ckpt/t", "odd.csv"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("`whyte`, a class of `color`"));
  EXPECT_THAT(refused.err, HasSubstr("the nearest is `white`"));
}

using Case10IndexInputTakenForALabel = Classes;

TEST_F(Case10IndexInputTakenForALabel, OnlyAnInputThatTheLossComparesWithIsALabel) {
  for (const char* setting : {"order         = balanced", "class_weights = inverse_frequency"}) {
    dir_.write("m.xgraph", fmt::format(R"(xgraph 1

model m {{
  input word: index(30)[N]

  logits = word -> embed(30, 8) -> linear(3)
  output logits
}}

data d {{
  source train = csv("train.csv")

  word  = column(0) -> as_index(30)
  label = column(1) -> as_index(3)
}}

train t {{
  batch         = 12
  steps         = 5
  loss          = softmax_ce(logits, label)
  optimizer     = adamw
  lr            = 0.03
  {}
}}
)",
                                       setting));
    succeed({"check", "m.xgraph"});
  }
}

using Case20ValidationLacksAClass = Classes;

TEST_F(Case20ValidationLacksAClass, DirectoriesAreMatchedByName) {
  write_animals(dir_, "train", 12);
  write_animals(dir_, "test", 4);
  write_pictures_model("source test = folder(\"test\")");
  fs::remove_all(dir_.path() + "/test/dog");
  succeed({"check", "--data", "m.xgraph"});
  succeed({"train", "m.xgraph", "--progress", "none"});
  EXPECT_THAT(succeed({"eval", "ckpt/t"}), HasSubstr("test   8 samples"));
  EXPECT_THAT(succeed({"eval", "ckpt/t"}), HasSubstr("100.00 %"));
  // A class that training did not have is still rejected.
  write_picture(dir_, "test/auk/1.ppm", 90, 90, 90, 1);
  const auto refused = run({"eval", "ckpt/t"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("`auk`, a class of `label` in the source `test`, is not a class of training"));
}

TEST_F(Case20ValidationLacksAClass, ALabelThatWasRenamedKeepsItsClasses) {
  write_animals(dir_, "train", 12);
  write_animals(dir_, "test", 4);
  write_pictures_model("source test = folder(\"test\")");
  succeed({"train", "m.xgraph", "--progress", "none"});
  fs::remove_all(dir_.path() + "/test/cat");
  std::string text = xrun::testing::read_file(dir_.path() + "/m.xgraph");
  for (const auto& [from, to] : {std::pair{"label = label", "kind  = label"}, {"(logits, label)", "(logits, kind)"}}) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += std::string(to).size()) {
      text.replace(at, std::string(from).size(), to);
    }
  }
  dir_.write("renamed.xgraph", text);
  EXPECT_THAT(succeed({"eval", "renamed.xgraph", "ckpt/t"}), HasSubstr("100.00 %"));
}

using Case27ResumeAfterANewClassDirectory = Classes;

TEST_F(Case27ResumeAfterANewClassDirectory, TheRunIsRefusedOrExtended) {
  write_animals(dir_, "train", 12);
  write_pictures_model();
  succeed({"train", "m.xgraph", "--steps", "40", "--progress", "none"});
  for (int i = 1; i <= 12; ++i) {
    write_picture(dir_, fmt::format("train/ape/{}.ppm", i), 200, 200, 40, i);
  }
  const auto refused = run({"train", "m.xgraph", "--progress", "none"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("XG0402"));
  EXPECT_THAT(refused.err, HasSubstr("`ape` of `label` in the source `train` is not in the checkpoint, which has cat, "
                                     "dog, owl as classes 0, 1, 2"));
  EXPECT_THAT(refused.err, HasSubstr("--extend"));
  EXPECT_TRUE(fs::exists(dir_.path() + "/ckpt/t/step-000040"));
  const auto extended = run({"train", "m.xgraph", "--extend", "--progress", "plain"});
  EXPECT_EQ(extended.exit, 0) << extended.err;
  EXPECT_THAT(extended.err + extended.out, HasSubstr("`ape` is added to `label` as class 3"));
  const std::string predicted = succeed(
      {"predict", "ckpt/t", "train/cat/1.ppm", "train/dog/1.ppm", "train/owl/1.ppm", "train/ape/1.ppm", "--topk", "1"});
  for (const char* name : {"cat", "dog", "owl", "ape"}) {
    EXPECT_THAT(predicted, HasSubstr(fmt::format("train/{}/1.ppm   probabilities   {}", name, name)));
  }
  // Afterwards, the same command resumes the run.
  succeed({"train", "m.xgraph", "--progress", "none", "--set", "train.steps=90", "--extend"});
}

TEST_F(Case27ResumeAfterANewClassDirectory, ARenamedClassKeepsItsRow) {
  write_animals(dir_, "train", 12);
  write_pictures_model();
  succeed({"train", "m.xgraph", "--steps", "40", "--progress", "none"});
  fs::rename(dir_.path() + "/train/cat", dir_.path() + "/train/zebra");
  const auto refused = run({"train", "m.xgraph", "--progress", "none"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("classes { moved \"cat\" -> \"zebra\" }"));
  write_pictures_model("classes { moved cat -> zebra }");
  succeed({"check", "m.xgraph"});
  succeed({"train", "m.xgraph", "--progress", "none"});
  const std::string predicted =
      succeed({"predict", "ckpt/t", "train/zebra/1.ppm", "train/dog/1.ppm", "train/owl/1.ppm", "--topk", "1"});
  for (const char* name : {"zebra", "dog", "owl"}) {
    EXPECT_THAT(predicted, HasSubstr(fmt::format("train/{}/1.ppm   probabilities   {}", name, name)));
  }
}

TEST_F(Case27ResumeAfterANewClassDirectory, AClassWithoutSamplesKeepsItsNumber) {
  write_animals(dir_, "train", 12);
  write_pictures_model();
  succeed({"train", "m.xgraph", "--steps", "40", "--progress", "none"});
  fs::remove_all(dir_.path() + "/train/cat");
  const auto resumed = run({"train", "m.xgraph", "--progress", "plain"});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err + resumed.out, HasSubstr("no samples of `cat`, a class of the checkpoint"));
  const std::string predicted = succeed({"predict", "ckpt/t", "train/dog/1.ppm", "train/owl/1.ppm", "--topk", "1"});
  EXPECT_THAT(predicted, HasSubstr("train/dog/1.ppm   probabilities   dog"));
  EXPECT_THAT(predicted, HasSubstr("train/owl/1.ppm   probabilities   owl"));
}

// Returns a table of `identities` classes, whose rows lie around points of a circle.
std::string identities(int classes, int each) {
  std::string text;
  for (int i = 0; i < classes * each; ++i) {
    const int label = i % classes;
    for (int column = 0; column < 6; ++column) {
      text += fmt::format("{:.3f},",
                          5 * std::sin(label * 1.7 + column * (1 + label % 5)) + 0.2 * std::sin(2.1 * i + column));
    }
    text += fmt::format("{}\n", label);
  }
  return text;
}

class Case23MoreClassesKeepOldRows : public Classes {
 protected:
  void write_model(const std::string& name, int classes, const std::string& more) {
    dir_.write(name, fmt::format(R"(xgraph 1

model m {{
  input x: f32[N, 6]

  feature = x -> linear(16) -> bn -> relu -> linear(8)
  output feature

  head id = cosine_classifier(feature, {0})
}}

data d {{
  source train = csv("train.csv")

  x     = columns(0..6)
  label = column(6) -> as_index({0})
}}

train t {{
  batch     = 12
  steps     = 60
  loss      = cosface(id, label, margin=0.1, scale=16)
  metrics   = [accuracy(id, label)]
  optimizer = sgd(momentum=0.9)
  lr        = 0.1
  {1}
}}
)",
                                 classes, more));
  }
  // Returns the bytes of the class weights in a checkpoint. The head is saved as one file.
  std::string class_weights(const std::string& checkpoint, int rows) {
    const std::string file =
        xrun::testing::read_file(dir_.path() + "/" + checkpoint + "/head.id.r0000000000.safetensors");
    uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    const std::string text = file.substr(8, header);
    const size_t at = text.find("\"data_offsets\":[", text.find("\"id.weight\""));
    const size_t begin = std::stoul(text.substr(at + 16));
    return file.substr(8 + header + begin, static_cast<size_t>(rows) * 8 * sizeof(float));
  }
};

TEST_F(Case23MoreClassesKeepOldRows, ANewRunStartsFromTheRowsOfItsClasses) {
  dir_.write("train.csv", identities(12, 6));
  write_model("old.xgraph", 12, "");
  succeed({"train", "old.xgraph", "--progress", "none"});
  dir_.write("train.csv", identities(16, 6));
  write_model("new.xgraph", 16, "init      = checkpoint(\"ckpt/t\")");
  const auto started = run({"train", "new.xgraph", "-C", "new", "--steps", "0", "--progress", "plain"});
  EXPECT_EQ(started.exit, 0) << started.err;
  EXPECT_THAT(started.err + started.out, HasSubstr("the head `id`: 12 of 16 classes are in"));
  EXPECT_THAT(started.err + started.out, HasSubstr("4 start from the seed"));
  EXPECT_EQ(class_weights("new/ckpt/t/step-000000", 12), class_weights("ckpt/t/step-000060", 12));
}

TEST_F(Case23MoreClassesKeepOldRows, ARunGoesOnWithMoreClasses) {
  dir_.write("train.csv", identities(12, 6));
  write_model("m.xgraph", 12, "");
  succeed({"train", "m.xgraph", "--progress", "none"});
  const std::string before = class_weights("ckpt/t/step-000060", 12);
  dir_.write("train.csv", identities(16, 6));
  write_model("m.xgraph", 16, "");
  const auto refused = run({"train", "m.xgraph", "--progress", "none"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("--extend"));
  const auto extended = run({"train", "m.xgraph", "--extend", "--progress", "plain", "--set", "train.steps=160"});
  EXPECT_EQ(extended.exit, 0) << extended.err;
  EXPECT_THAT(extended.out + extended.err, HasSubstr(" step=160 epoch"));
  EXPECT_THAT(extended.out + extended.err, ::testing::ContainsRegex(" step=160 [^\n]*accuracy=(0\\.9|1\\.0)"));
  // A model with fewer classes than the checkpoint is not an extension.
  write_model("m.xgraph", 12, "");
  EXPECT_EQ(run({"train", "m.xgraph", "--extend", "--progress", "none", "--set", "train.steps=170"}).exit, 1);
}

TEST_F(Case23MoreClassesKeepOldRows, ClassRowsInAFileAreNotExtended) {
  dir_.write("train.csv", identities(12, 6));
  const std::string mapped = "groups { id { rows = mapped } }\n  active_classes = sample(1%)";
  write_model("m.xgraph", 300'000, mapped);
  succeed({"train", "m.xgraph", "--progress", "none", "--set", "train.steps=4"});
  write_model("m.xgraph", 301'000, mapped);
  const auto refused = run({"train", "m.xgraph", "--extend", "--progress", "none", "--set", "train.steps=8"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("has rows 0..300000, but the run needs 0..301000"));
  EXPECT_THAT(refused.err, HasSubstr("init = checkpoint(...)"));
  write_model("m.xgraph", 300'000, mapped);
  succeed({"train", "m.xgraph", "--progress", "none", "--set", "train.steps=4"});
}

TEST_F(Case23MoreClassesKeepOldRows, RowsAreCopiedByClassNameWhateverTheirNumbers) {
  write_animals(dir_, "train", 12);
  write_pictures_model();
  succeed({"train", "m.xgraph", "--progress", "none"});
  for (int i = 1; i <= 12; ++i) {
    write_picture(dir_, fmt::format("train/ape/{}.ppm", i), 200, 200, 40, i);
  }
  const auto started = run({"train", "m.xgraph", "-C", "new", "--steps", "0", "--progress", "plain", "--set",
                            "train.init=checkpoint(\"ckpt/t\")"});
  EXPECT_EQ(started.exit, 0) << started.err;
  EXPECT_THAT(started.err + started.out, HasSubstr("3 of 4 classes are in"));
  // No step was trained after the extension, and the old classes are already recognised.
  const std::string predicted =
      succeed({"predict", "new/ckpt/t", "train/cat/1.ppm", "train/dog/1.ppm", "train/owl/1.ppm", "--topk", "1"});
  for (const char* name : {"cat", "dog", "owl"}) {
    EXPECT_THAT(predicted, HasSubstr(fmt::format("train/{}/1.ppm   probabilities   {}", name, name)));
  }
}

}  // namespace
