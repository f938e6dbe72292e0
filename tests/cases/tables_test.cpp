// Cases 04, 13 and 21: labels and ids in tables.
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace {

using testing::HasSubstr;
using testing::Not;
using xrun::testing::CommandResult;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;

// Returns rows with values around 5 at one or two of six places. `cell` returns the text of the label from the row's
// number and class.
std::string table(int rows, const std::function<std::string(int row, int label)>& cell) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    const int label = i % 12;
    for (int column = 0; column < 6; ++column) {
      const double at = column == label % 6 || (label >= 6 && column == (label + 1) % 6) ? 5 : 0;
      text += fmt::format("{:.3f},", at + 0.4 * std::sin(1.7 * i + 2.3 * column));
    }
    text += cell(i, label) + "\n";
  }
  return text;
}

std::string plain(int, int label) { return std::to_string(label); }

class Tables : public ::testing::Test {
 protected:
  // Writes a model of 20 classes; `label` is the binding of its label.
  void write_model(const std::string& label, const std::string& more_data = "", int classes = 20) const {
    dir.write("m.xgraph", R"(xgraph 1

model m {
  input x: f32[N, 6]

  logits = x -> linear(16) -> relu -> linear()" +
                              std::to_string(classes) + R"()
  output logits
}

data d {
  source train = csv("train.csv")
  source test  = csv("test.csv")

  x     = columns(0..6)
  label = )" + label + "\n" + more_data +
                              R"(}

train t {
  batch     = 12
  steps     = 150
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = adamw
  lr        = 0.02
}
)");
  }
  CommandResult run(const std::vector<std::string>& words) const { return run_xrun(words, {.directory = dir.path()}); }
  std::string check() const {
    const auto result = run({"check", "--data", "m.xgraph"});
    return fmt::format("exit {}\n{}{}", result.exit, result.out, result.err);
  }
  TemporaryDirectory dir;
};

using Case04CsvOneMissingLabel = Tables;
using Case13RowOfIdsAbove2To24 = Tables;
using Case21LabelsFromOne = Tables;

TEST_F(Case04CsvOneMissingLabel, IsABrokenSampleOfANumericColumn) {
  dir.write("test.csv", table(36, plain));
  write_model("column(6) -> as_index(20)");
  for (const char* word : {"nan", "NA", "?", "null", "", "None", "inf"}) {
    dir.write("train.csv", table(600, [&](int row, int label) { return row == 30 ? word : plain(row, label); }));
    const std::string found = check();
    EXPECT_THAT(found, HasSubstr("exit 1\n")) << word;
    EXPECT_THAT(found, HasSubstr("error[XG0412]: train.csv:31 of source `train`: column 6 is ")) << word;
    EXPECT_THAT(found, HasSubstr("remove the line, or raise `max_bad`")) << word;
    EXPECT_THAT(found, HasSubstr("ok   test")) << word;
  }
  EXPECT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 1) << "one of 600 is more than `max_bad`";
  write_model("column(6) -> as_index(20)", "  max_bad = 0.05\n");
  const auto train = run({"train", "m.xgraph", "--progress", "plain"});
  ASSERT_EQ(train.exit, 0) << train.err;
  EXPECT_THAT(train.err, HasSubstr("train.csv:31"));
  EXPECT_THAT(run({"eval", "ckpt/t"}).out, HasSubstr("100")) << "classes are the numbers of the labels";
}

TEST_F(Case04CsvOneMissingLabel, MissingFeaturesAndTextsAreBrokenSamples) {
  write_model("column(6)", "  max_bad = 0.05\n", 12);
  const auto named = [](int, int label) { return fmt::format("kind{:02}", label); };
  dir.write("test.csv", table(36, named));
  std::string feature = table(600, named);
  feature.replace(0, feature.find(','), "NA");
  dir.write("train.csv", feature);
  write_model("column(6) -> as_index(12)", "  max_bad = 0.05\n", 12);
  EXPECT_THAT(check(), HasSubstr("error[XG0412]: train.csv:1 of source `train`: column 0 is a missing value"));
  dir.write("train.csv", table(600, [&](int row, int label) { return row == 30 ? "null" : named(row, label); }));
  EXPECT_THAT(check(), HasSubstr("error[XG0412]: train.csv:31 of source `train`: column 6 is a missing value"));
  EXPECT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  EXPECT_THAT(run({"eval", "ckpt/t"}).out, HasSubstr("100"));
}

TEST_F(Case13RowOfIdsAbove2To24, AreExactInAColumnAndInRows) {
  std::string ids;
  for (int i = 0; i < 4500; ++i) {
    ids += fmt::format("{0},{0},{1}\n", 20'000'000 + i % 15, i % 15);
  }
  dir.write("train.csv", ids);
  const auto model = [](const std::string& input, const std::string& binding, const std::string& after) {
    return R"(xgraph 1

model m {
  input ids: )" +
           input +
           R"(

  logits = ids -> )" +
           after + R"( -> linear(15)
  output logits
}

data d {
  source train = csv("train.csv")

  ids   = )" +
           binding +
           R"(
  label = column(2) -> as_index(15)
}

train t {
  batch     = 15
  steps     = 300
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = adamw
  lr        = 0.05
  log { every = 10 steps }
}
)";
  };
  const std::string first = " -> as_index(16, first=20_000_000)";
  const std::string embed = "embed(16, 8, init=normal(1))";
  struct One {
    std::string input, binding, after;
  };
  for (const One& one : {One{"index(16)[N]", "column(0)" + first, embed},
                         One{"index(16)[N, 2]", "columns(0..2)" + first, embed + " -> flatten"},
                         One{"index(16)[N, 1]", "columns(0..1)" + first, embed + " -> flatten"}}) {
    dir.write("m.xgraph", model(one.input, one.binding, one.after));
    EXPECT_THAT(check(), HasSubstr("exit 0\n")) << one.input;
    std::filesystem::remove_all(dir.path() + "/ckpt");
    const auto train = run({"train", "m.xgraph", "--progress", "plain"});
    EXPECT_THAT(train.err, HasSubstr(" accuracy=1.0000 ")) << one.input;
  }
  // An earlier stage computes in f32, which cannot hold these numbers.
  dir.write("m.xgraph", model("index(16)[N, 1]", "columns(0..1) -> scale(1)" + first, embed + " -> flatten"));
  EXPECT_THAT(check(), HasSubstr("label 20000000 was converted to f32"));
}

TEST_F(Case21LabelsFromOne, AreReportedWithTheProposalToWriteFirst) {
  write_model("column(6) -> as_index(12)", "", 12);
  const auto from_one = [](int, int label) { return std::to_string(label + 1); };
  dir.write("train.csv", table(600, from_one));
  dir.write("test.csv", table(36, plain));
  EXPECT_THAT(check(), HasSubstr("all labels are in 1..12: count them from 1, `as_index(12, first=1)`"));
  dir.write("test.csv", table(36, from_one));
  write_model("column(6) -> as_index(12, first=1)", "", 12);
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  EXPECT_THAT(run({"eval", "ckpt/t"}).out, HasSubstr("100"));
  // One label is 0, so the labels do not count from 1.
  write_model("column(6) -> as_index(12)", "", 12);
  dir.write("train.csv", table(600, [&](int row, int label) { return row == 0 ? "0" : from_one(row, label); }));
  EXPECT_THAT(check(), Not(HasSubstr("source `train`: all labels")));
  EXPECT_THAT(check(), HasSubstr("fix train.csv:12, or give the head more classes"));
}

TEST_F(Case21LabelsFromOne, FaultyLabelsAreExplained) {
  write_model("column(6) -> as_index(12)", "", 12);
  dir.write("test.csv", table(36, plain));
  const auto with = [&](const char* label) {
    dir.write("train.csv", table(600, [&](int row, int usual) { return row == 17 ? label : plain(row, usual); }));
    const std::string found = check();
    EXPECT_THAT(found, Not(HasSubstr("more classes"))) << label;
    return found;
  };
  EXPECT_THAT(with("-1"), HasSubstr("train.csv:18 of source `train`: label -1 is below 0"));
  EXPECT_THAT(with("-1"), HasSubstr("put `ignore(-1)` before `as_index`"));
  EXPECT_THAT(with("-2"), HasSubstr("label -2 is below 0"));
  EXPECT_THAT(with("2.5"), HasSubstr("train.csv:18 of source `train`: label 2.5 is not a whole number"));
  EXPECT_THAT(with("2.5"), HasSubstr("correct it, or bind another column"));
}

TEST_F(Case21LabelsFromOne, IdsBecomeClassesByAsClass) {
  write_model("column(6) -> as_class", "", 12);
  const auto id = [](int, int label) { return std::to_string(4'000'000'000 + 17 * ((label * 5) % 12)); };
  dir.write("train.csv", table(600, id));
  dir.write("test.csv", table(36, id));
  EXPECT_THAT(check(), HasSubstr("exit 0\n"));
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  EXPECT_THAT(run({"eval", "ckpt/t"}).out, HasSubstr("100"));
  const auto predict = run({"predict", "ckpt/t", "--source", "test", "--rows", "0..2", "--topk", "1"});
  EXPECT_THAT(predict.out, HasSubstr("test.csv:1   probabilities   4000000000 "));
  EXPECT_THAT(predict.out, HasSubstr("test.csv:2   probabilities   4000000085 ")) << "numbered by first appearance";
  // The test table begins with another id, or has an id that training lacks.
  dir.write("test.csv", table(36, [&](int row, int label) { return id(row, label); }).substr(table(1, id).size()));
  EXPECT_THAT(run({"eval", "ckpt/t"}).out, HasSubstr("100")) << "matched by name";
  dir.write("test.csv", table(36, [&](int row, int label) { return row == 3 ? "17" : id(row, label); }));
  const auto unknown = run({"eval", "ckpt/t"});
  EXPECT_EQ(unknown.exit, 1);
  EXPECT_THAT(unknown.err, HasSubstr("`17`"));
  // The table has more ids than the head has classes.
  dir.write("train.csv", table(600, [&](int row, int label) { return row == 30 ? "0077" : id(row, label); }));
  const std::string more = check();
  EXPECT_THAT(more, HasSubstr("label 12 does not fit a head with 12 classes: `0077` is the first class beyond them"));
}

TEST_F(Case21LabelsFromOne, LeadingZerosAreKeptByAsClassAndOtherFieldsAreRejected) {
  const auto code = [](int, int label) {
    return fmt::format("{:0{}}", label / 2, label % 2 + 1);
  };  // 0, 00, 1, 01, ...
  dir.write("train.csv", table(600, code));
  dir.write("test.csv", table(36, code));
  write_model("column(6) -> as_class", "", 12);
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  EXPECT_THAT(run({"predict", "ckpt/t", "--source", "test", "--rows", "3..4", "--topk", "1"}).out, HasSubstr("   01 "));
  dir.write("train.csv", table(600, [&](int row, int label) { return row == 5 ? "NA" : code(row, label); }));
  EXPECT_THAT(check(), HasSubstr("train.csv:6 of source `train`: column 6 is a missing value"));
  for (const char* wrong : {"columns(0..2) -> as_class", "column(6) -> scale(1) -> as_class"}) {
    write_model(wrong, "", 12);
    EXPECT_THAT(run({"check", "m.xgraph"}).err, HasSubstr("XG0409]: `as_class` needs one column of a table")) << wrong;
  }
}

}  // namespace
