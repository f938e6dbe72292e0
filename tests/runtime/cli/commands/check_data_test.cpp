// Output of commands about data: text labels, all bad files in a check, the memory that pictures need, and inputs that
// are not scaled.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class DataCommands : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    const fs::path path = fs::path(directory_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  CommandResult run(const std::vector<std::string>& words) const {
    return run_xrun(words, {.directory = directory_.path()});
  }
  TemporaryDirectory directory_;
};

// A table with one column for each measurement. The species is a text, and the test table lacks some species, including
// the first.
class CsvLabels : public DataCommands {
 protected:
  void SetUp() override {
    std::string train = "width,height,species\n";
    std::string test = train;
    for (int i = 0; i < 30; ++i) {
      const char* kind = i % 3 == 0 ? "setosa" : i % 3 == 1 ? "\"versicolor\"" : "virginica";
      train += std::to_string(i % 3) + "," + std::to_string(1 - i % 3) + "," + kind + "\n";
      test += i % 3 == 0 ? "" : std::to_string(i % 3) + "," + std::to_string(1 - i % 3) + "," + kind + "\n";
    }
    write("train.csv", train);
    write("test.csv", test);
    write("m.xgraph", model("column(\"species\")"));
  }
  static std::string model(const std::string& label) {
    return R"(xgraph 1
model m {
  input x: f32[N, 2]
  logits = x -> linear(3)
  output logits
}
data d {
  source train = csv("train.csv", header=true)
  source test  = csv("test.csv", header=true)
  x     = columns(0..2)
  label = )" +
           label +
           R"(
}
train t {
  batch     = 10
  norm_rows = 1
  epochs    = 40
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = sgd(momentum=0.9)
  lr        = 0.1
}
)";
  }
};

TEST_F(CsvLabels, ClassesAreTheTextsOfTrainingInByteOrder) {
  for (const char* label : {"column(\"species\")", "column(\"species\") -> as_index(3)", "column(2) -> as_index(3)"}) {
    write("m.xgraph", model(label));
    fs::remove_all(directory_.path() + "/ckpt");
    const auto train = run({"train", "m.xgraph", "--progress", "none"});
    ASSERT_EQ(train.exit, 0) << label << train.err;
    const auto eval = run({"eval", "m.xgraph", "ckpt/t", "--format", "json"});
    ASSERT_EQ(eval.exit, 0) << eval.err;
    EXPECT_EQ(json::parse(eval.out)["metrics"]["test"], 1.0)
        << "numbered as in training, although the first is missing";
    EXPECT_EQ(json::parse(eval.out)["samples"]["test"], 20);
    const auto predict = run({"predict", "m.xgraph", "ckpt/t", "--source", "test", "--rows", "0..2", "--topk", "1"});
    ASSERT_EQ(predict.exit, 0) << predict.err;
    EXPECT_THAT(predict.out, HasSubstr("test.csv:2   probabilities   versicolor "));
    EXPECT_THAT(predict.out, HasSubstr("test.csv:3   probabilities   virginica "));
  }
}

TEST_F(CsvLabels, AHeadWithMoreClassesCausesAWarning) {
  const auto warnings = [&](const std::string& label, const std::string& head) {
    std::string text = model(label);
    text.replace(text.find("linear(3)"), 9, head);
    write("m.xgraph", text);
    const auto result = run({"check", "m.xgraph", "--data"});
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.err;
  };
  const std::string five = warnings("column(\"species\")", "linear(5)");
  EXPECT_THAT(five,
              HasSubstr("warning[XG0419]: `label`: the head has 5 classes, but the source `train` has 3, so 2 classes "
                        "of the head never occur as a label"));
  EXPECT_THAT(five, HasSubstr("give the head the 3 classes of the data; `--extend` adds classes"));
  EXPECT_THAT(warnings("column(2) -> as_index(4)", "linear(4)"),
              HasSubstr("1 class of the head never occurs as a label"));
  EXPECT_THAT(warnings("column(\"species\")", "linear(3)"), Not(HasSubstr("XG0419")));
  // The numbers of a column are not classes before all of them are read.
  EXPECT_THAT(warnings("column(\"width\") -> as_index(5)", "linear(5)"), Not(HasSubstr("XG0419")));
}

TEST_F(CsvLabels, AreRefusedIfTrainingDidNotHaveThem) {
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  write("test.csv", "width,height,species\n0,1,setosa\n0,1,rosa\n");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"eval", "m.xgraph", "ckpt/t"},
                                                {"check", "m.xgraph", "--data"},
                                                {"plan", "m.xgraph"}}) {
    const auto result = run(words);
    EXPECT_EQ(result.exit, 1) << words[0];
    EXPECT_THAT(result.err,
                HasSubstr("XG0402]: `rosa`, a class of `label` in the source `test`, is not a class of training"));
    EXPECT_THAT(result.err, HasSubstr("they are setosa, versicolor and virginica"));
  }
}

TEST_F(CsvLabels, ColumnsHaveTheNamesOfTheHeader) {
  const auto fault = [&](const std::string& label) {
    write("m.xgraph", model(label));
    const auto result = run({"check", "m.xgraph", "--data"});
    EXPECT_EQ(result.exit, 1) << result.out;
    return result.err;
  };
  EXPECT_THAT(fault("column(\"specie\")"), HasSubstr("XG0413]: the table has no column `specie`"));
  EXPECT_THAT(fault("column(\"specie\")"), HasSubstr("the nearest is `species`; others are width and height"));
  EXPECT_THAT(fault("column(\"species\") -> as_index(3, first=1)"), HasSubstr("XG0409]: the labels are texts"));
  EXPECT_THAT(fault("column(\"species\") -> as_index(2)"), HasSubstr("XG0"));
  std::string numbers = model("column(\"species\")");
  numbers.replace(numbers.find("columns(0..2)"), 13, "columns(1..3)");
  write("m.xgraph", numbers);
  EXPECT_THAT(run({"check", "m.xgraph", "--data"}).err,
              HasSubstr("XG0412]: train.csv:2: column 2 (`species`) is \"setosa\", not a number"));
  std::string headless = model("column(\"species\")");
  for (size_t at; (at = headless.find(", header=true")) != std::string::npos;) {
    headless.erase(at, 13);
  }
  write("m.xgraph", headless);
  write("train.csv", "1,2,setosa\n");
  write("test.csv", "1,2,setosa\n");
  EXPECT_THAT(run({"check", "m.xgraph", "--data"}).err, HasSubstr("csv(..., header=true)"));
  // A numeric column can also be bound by its name.
  SetUp();
  std::string named = model("column(\"species\")");
  named.replace(named.find("f32[N, 2]"), 9, "f32[N]   ");
  named.replace(named.find("columns(0..2)"), 13, "column(\"width\") -> scale(1)");
  named.replace(named.find("x -> linear(3)"), 14, "x -> reshape([N, 1]) -> linear(3)");
  write("m.xgraph", named);
  const auto result = run({"check", "m.xgraph", "--data"});
  EXPECT_EQ(result.exit, 0) << result.err;
}

TEST_F(CsvLabels, MayCountFromOneAndErrorsNameTheLineOfTheFile) {
  std::string rows = "width,height,species\n\n";
  for (int i = 0; i < 10; ++i) {
    rows += "1,2," + std::to_string(1 + i % 3) + "\n";
  }
  write("train.csv", rows);
  write("test.csv", rows);
  write("m.xgraph", model("column(\"species\") -> as_index(3, first=1)"));
  const auto train = run({"train", "m.xgraph", "--progress", "none"});
  EXPECT_EQ(train.exit, 0) << train.err;
  write("test.csv", rows + "1,2,4\n");
  const auto high = run({"check", "m.xgraph", "--data"});
  EXPECT_EQ(high.exit, 1);
  EXPECT_THAT(high.err, HasSubstr("test.csv:13 of source `test`: label 4 does not fit 3 classes that begin at 1"));
  write("test.csv", rows + "1,2,0\n");
  EXPECT_THAT(run({"check", "m.xgraph", "--data"}).err,
              HasSubstr("test.csv:13 of source `test`: label 0 does not fit"));
}

// Returns a model over pictures of 4 x 4 in one class.
std::string picture_model(const std::string& stages) {
  return R"(xgraph 1
model m {
  input x: f32[N, 1, 4, 4]
  logits = x -> flatten -> linear(2)
  output logits
}
data d {
  source train = folder(["train"])
  x     = )" +
         stages + R"(
  label = label -> as_index(2)
}
train t {
  batch     = 4
  norm_rows = 1
  epochs    = 1
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 1e-6
}
)";
}

using CheckData = DataCommands;

TEST_F(CheckData, NamesAllBadFilesUpToTwenty) {
  write("m.xgraph", picture_model("file -> decode(4, channels=1) -> scale(1 / 255)"));
  for (int i = 0; i < 30; ++i) {
    write("train/a/" + std::to_string(100 + i) + ".png", i % 10 == 3 ? "torn" : runtime::testing::png(4, 9));
  }
  const auto three = run({"check", "m.xgraph", "--data"});
  EXPECT_EQ(three.exit, 1);
  for (const char* name : {"103", "113", "123"}) {
    EXPECT_THAT(three.err, HasSubstr("error[XG0412]: train/a/" + std::string(name) + ".png of source `train`"));
  }
  EXPECT_THAT(three.out, HasSubstr("  bad  train      folder: 30 images, 1 class   30 samples decoded, 3 broken\n"));
  const auto object = run({"check", "m.xgraph", "--data", "--format", "json"});
  std::istringstream lines(object.out);
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  EXPECT_EQ(json::parse(line)["broken"], 3);
  EXPECT_EQ(json::parse(line)["decoded"], 30);
  EXPECT_EQ(json::parse(line)["every"], 1);

  for (int i = 0; i < 30; ++i) {
    write("train/a/" + std::to_string(100 + i) + ".png", "torn");
  }
  const auto many = run({"check", "m.xgraph", "--data"});
  EXPECT_THAT(many.err, HasSubstr("train/a/119.png"));
  EXPECT_THAT(many.err, Not(HasSubstr("train/a/120.png")));
  EXPECT_THAT(many.out,
              HasSubstr("20 of 30 samples decoded, 20 broken: the check of the source stopped at the last of these"));
}

TEST_F(CheckData, ReportsWhichSamplesItDecoded) {
  write("m.xgraph", picture_model("file -> decode(4, channels=1) -> scale(1 / 255)"));
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < 2500; ++i) {
    files.emplace_back("a/" + std::to_string(i) + ".png", runtime::testing::png(4, 9));
  }
  files.emplace_back("b/notes.txt", "nothing");
  runtime::testing::write_zip(directory_.path() + "/train", files);
  const auto result = run({"check", "m.xgraph", "--data"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 250 of 2 500 samples decoded (every 2nd)"));
  EXPECT_THAT(result.err, HasSubstr("warning[XG0415]: source `train`: 1 file is not read"));
  EXPECT_THAT(run({"plan", "m.xgraph", "--dry-run"}).err, HasSubstr("warning[XG0415]: source `train`: 1 file is not"));
  EXPECT_THAT(run({"train", "m.xgraph", "--steps", "1"}).err,
              HasSubstr("warning[XG0415]: source `train`: 1 file is not"));
}

using PictureMemory = DataCommands;

// A picture of 64 million pixels has a file of some kilobytes.
TEST_F(PictureMemory, CountsLargePicturesInThePlanAndInARun) {
  write("train/a/1.png", runtime::testing::png(8192, 8192, 7));
  EXPECT_LT(fs::file_size(directory_.path() + "/train/a/1.png"), 300'000u);
  write("train/b/1.png", runtime::testing::png(4, 7));
  const std::string cluster = "\ncluster c {\n  node {\n    cores = 2\n    memory = 1GiB\n  }\n}\n";
  write("m.xgraph",
        picture_model("file -> decode(channels=1) -> random_flip -> resize(4) -> scale(1 / 255)") + cluster);
  const auto whole = run({"plan", "m.xgraph", "--dry-run"});
  EXPECT_EQ(whole.exit, 3) << whole.out;
  EXPECT_THAT(whole.err, HasSubstr("XG0601]: does not fit: with its data the run needs 1.1 GiB"));
  EXPECT_THAT(whole.err, HasSubstr("train/a/1.png of 8192 x 8192"));
  EXPECT_THAT(whole.err, HasSubstr("give `decode` a size"));
  EXPECT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 3);
  write("m.xgraph", picture_model("file -> decode(4, channels=1) -> scale(1 / 255)") + cluster);
  const auto resized = run({"plan", "m.xgraph", "--dry-run", "--format", "json"});
  ASSERT_EQ(resized.exit, 0) << resized.err;
  const json page = json::parse(resized.out);
  EXPECT_GT(page["data"]["decoding_a_worker"], 64 << 20);
  const auto workers = page["run_memory"]["decoding"].get<int64_t>() / page["data"]["decoding_a_worker"].get<int64_t>();
  EXPECT_EQ(workers, 2);
  EXPECT_GT(page["run_memory"]["sum"], page["run_memory"]["decoding"]);
}

using Inputs = DataCommands;

TEST_F(Inputs, AreReportedIfNotScaled) {
  for (int i = 0; i < 8; ++i) {
    write("train/" + std::string(i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".png", runtime::testing::png(4, 150));
  }
  write("m.xgraph", picture_model("file -> decode(4, channels=1)"));
  const auto raw = run({"train", "m.xgraph", "--progress", "plain", "--set", "train.epochs=3"});
  ASSERT_EQ(raw.exit, 0) << raw.err;
  const std::string warning = "warning[XG0816]: `x` has the mean 150 in the first batch";
  EXPECT_THAT(raw.err, HasSubstr(warning));
  EXPECT_THAT(raw.err, HasSubstr("scale(1 / 255)"));
  EXPECT_EQ(raw.err.find(warning), raw.err.rfind(warning)) << "once";
  write("m.xgraph", picture_model("file -> decode(4, channels=1) -> scale(1 / 255)"));
  const auto scaled = run({"train", "m.xgraph", "--progress", "plain", "-C", "other"});
  ASSERT_EQ(scaled.exit, 0) << scaled.err;
  EXPECT_THAT(scaled.err, Not(HasSubstr("XG0816")));
}

}  // namespace
}  // namespace xrun::testing
