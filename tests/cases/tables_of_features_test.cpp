// Tables of measurements as users have them: typing errors among numbers, columns by name, standardized columns,
// missing values, other delimiters, and an evaluation on the training source.
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace {

using testing::HasSubstr;
using testing::Not;
using xrun::testing::CommandResult;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;

// Flowers of three kinds: sizes of petals in micrometres, whose spread is small compared with their mean, and a column
// that does not vary.
std::string flowers(int rows, char delimiter = ',', bool header = true) {
  std::string text = header ? "petal width,note,petal length,site,kind\n" : "";
  for (int i = 0; i < rows; ++i) {
    const int kind = i % 3;
    text += fmt::format("{:.1f},{},{:.1f},7,{}\n", 20'000 + 900 * (kind == 1) + 150 * std::sin(1.7 * i),
                        i % 2 == 0 ? "\"a b\"" : "x", 50'000 + 900 * (kind == 2) + 150 * std::cos(2.3 * i), kind);
  }
  for (char& c : text) {
    c = c == ',' ? delimiter : c;
  }
  return text;
}

// Replaces line `line`, counted from 1, of a text.
std::string with_line(std::string text, int line, const std::string& other) {
  size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    begin = text.find('\n', begin) + 1;
  }
  return text.replace(begin, text.find('\n', begin) - begin, other);
}

class TablesOfFeatures : public ::testing::Test {
 protected:
  void SetUp() override {
    dir.write("train.csv", flowers(240));
    dir.write("test.csv", flowers(60));
  }

  struct Parts {
    std::string x = R"(columns("petal length", "petal width") -> standardize)";
    std::string more;  // further statements of `data`
    std::string arguments = ", header=true";
    std::string label = R"(column("kind") -> as_index(3))";
    std::string measured = "metrics   = [accuracy(logits, label)]";
    int width = 2;
    int epochs = 20;
  };
  void write_model(const Parts& parts) const {
    dir.write("m.xgraph", fmt::format(R"(xgraph 1

model m {{
  input x: f32[N, {}]

  logits = x -> linear(16) -> relu -> linear(3)
  output logits
}}

data d {{
  source train = csv("train.csv"{})
  source test  = csv("test.csv"{})

  x     = {}
  label = {}
{}}}

train t {{
  batch     = 24
  epochs    = {}
  loss      = softmax_ce(logits, label)
  optimizer = adamw
  lr        = 0.02
  {}
}}
)",
                                      parts.width, parts.arguments, parts.arguments, parts.x, parts.label, parts.more,
                                      parts.epochs, parts.measured));
  }
  CommandResult run(const std::vector<std::string>& words) const { return run_xrun(words, {.directory = dir.path()}); }
  std::string output(const std::vector<std::string>& words, int exit = 0) const {
    const auto result = run(words);
    EXPECT_EQ(result.exit, exit) << result.out << result.err;
    return result.out + result.err;
  }
  // The accuracy that `eval` prints for a source.
  double accuracy(const std::string& source, const std::string& file = "m.xgraph") const {
    const std::string text = output({"eval", file, "ckpt/t", "--on", source});
    const size_t at = text.rfind("\n" + source + " ");
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? 0 : std::stod(text.substr(at + source.size() + 2));
  }
  TemporaryDirectory dir;
};

TEST_F(TablesOfFeatures, ACellThatIsNotANumberIsABrokenSampleThatMaxBadCounts) {
  std::string train = with_line(flowers(240), 5, "20000.0,x,?,7,0");
  train = with_line(train, 9, "2OOOO,x,50000.0,7,1");
  dir.write("train.csv", train);
  write_model({});
  const std::string cell = "column 0 (`petal width`) is \"2OOOO\", not a number";
  const std::string plan = output({"plan", "m.xgraph"});
  EXPECT_THAT(plan, HasSubstr("warning[XG0412]: source `train`: 2 of 240 rows have a cell that cannot be used; the "
                              "first: train.csv:5: column 2 (`petal length`) is a missing value"));
  const std::string checked = output({"check", "--data", "m.xgraph"}, 1);
  EXPECT_THAT(checked, HasSubstr("error[XG0412]: train.csv:9 of source `train`: " + cell));
  EXPECT_THAT(checked, HasSubstr("error[XG0412]: train.csv:5 of source `train`: "));
  EXPECT_THAT(checked, HasSubstr("240 samples decoded, 2 broken"));
  EXPECT_THAT(checked, HasSubstr("ok   test"));
  const std::string refused = output({"train", "m.xgraph", "--progress", "none"}, 1);
  EXPECT_THAT(refused, HasSubstr("error[XG0408]: 1 of 240 samples are broken, more than `max_bad` allows; the last: "));
  EXPECT_THAT(refused, HasSubstr("train.csv:"));
  write_model({.more = "  max_bad = 0.01\n"});
  const std::string trained = output({"train", "m.xgraph", "--progress", "plain"});
  EXPECT_THAT(trained, HasSubstr("train.csv:9 of source `train`: " + cell));
  EXPECT_GT(accuracy("test"), 95);
  EXPECT_THAT(output({"eval", "ckpt/t", "--on", "train"}), HasSubstr("train   238 samples; 2 broken left out"));
}

TEST_F(TablesOfFeatures, AMissingHeaderOrAColumnOfTextsEndsTheRunAsBefore) {
  write_model(
      {.x = "columns(0..2)", .more = "  max_bad = 0.5\n", .arguments = "", .label = "column(4) -> as_index(3)"});
  EXPECT_THAT(output({"check", "--data", "m.xgraph"}, 1),
              HasSubstr("train.csv:1: column 0 is \"petal width\", not a number"));
  write_model({.x = R"(columns("petal width", "note"))", .more = "  max_bad = 0.5\n"});
  EXPECT_THAT(output({"check", "--data", "m.xgraph"}, 1),
              HasSubstr("train.csv:2: column 1 (`note`) is \"a b\", not a number"));
  dir.write("test.csv", flowers(60, ';'));
  write_model({});
  const std::string other = output({"check", "--data", "m.xgraph"}, 1);
  EXPECT_THAT(other, HasSubstr("error[XG0409]: the table has only one column"));
  EXPECT_THAT(other, HasSubstr("write csv(..., delimiter=\";\")"));
}

TEST_F(TablesOfFeatures, ColumnsAreNamedInTheTextAndUnknownNamesGetTheNearest) {
  write_model({.x = R"(columns("petal lenght", "petal width") -> standardize)"});
  const std::string slip = output({"check", "--data", "m.xgraph"}, 1);
  EXPECT_THAT(slip, HasSubstr("error[XG0413]: the table has no column `petal lenght`"));
  EXPECT_THAT(slip, HasSubstr("the nearest is `petal length`"));
  write_model({.x = R"(columns(["petal length", "petal width"]) -> standardize)"});
  EXPECT_THAT(output({"check", "--data", "m.xgraph"}), HasSubstr("ok   train"));
  const auto fault = [&](const std::string& x) {
    write_model({.x = x});
    return output({"check", "m.xgraph"}, 1);
  };
  EXPECT_THAT(fault(R"(columns(0..2, "petal width"))"), HasSubstr("cannot be several ranges, or ranges and names"));
  EXPECT_THAT(fault("columns(0, 2)"), HasSubstr("expects a range of whole numbers such as 0..64, or names in quotes"));
  EXPECT_THAT(fault("columns([])"), HasSubstr("expects a range of whole numbers such as 0..64, or names in quotes"));
  EXPECT_THAT(fault(R"(columns("site", "site"))"), HasSubstr("names the column `site` twice"));
  EXPECT_THAT(fault("columns()"), HasSubstr("XG0204"));
}

TEST_F(TablesOfFeatures, StandardizedColumnsLearnAndTestsUseTheNumbersOfTraining) {
  write_model({.x = R"(columns("petal length", "petal width", "site") -> standardize)", .width = 3});
  const std::string trained = output({"train", "m.xgraph", "--progress", "plain"});
  EXPECT_THAT(trained, HasSubstr("XG0429"));
  EXPECT_THAT(trained,
              HasSubstr("`x` of the source `train`: column `site` does not vary, so `standardize` divides by 1"));
  EXPECT_GT(accuracy("test"), 95);
  const double whole = accuracy("test");
  // A test source of one kind has another mean. By its own numbers its rows would look like those of all kinds.
  std::string one = flowers(60);
  std::string kept = one.substr(0, one.find('\n') + 1);
  for (size_t at = kept.size(); at < one.size();) {
    const size_t end = one.find('\n', at) + 1;
    kept += one[end - 2] == '2' ? one.substr(at, end - at) : "";
    at = end;
  }
  dir.write("test.csv", kept);
  EXPECT_GT(accuracy("test"), 95) << whole;
  EXPECT_THAT(output({"eval", "ckpt/t"}), HasSubstr("test   20 samples"));
  EXPECT_THAT(output({"predict", "ckpt/t", "test.csv", "--rows", "0..1", "--topk", "1"}),
              HasSubstr("probabilities   2 "));
  write_model({.x = R"(columns("petal length", "petal width", "site") -> scale(0.0001))", .width = 3});
  output({"train", "m.xgraph", "--progress", "none", "-C", "plain"});
  write_model({.x = R"(columns("petal length", "petal width", "site") -> standardize)", .width = 3});
  const std::string foreign = output({"eval", "m.xgraph", "plain/ckpt/t", "--anyway"}, 1);
  EXPECT_THAT(foreign,
              HasSubstr("error[XG0705]: `x` is standardized, but the run of the checkpoint measured no means"));
}

TEST_F(TablesOfFeatures, AResumedRunKeepsTheNumbersOfItsCheckpoint) {
  write_model({.epochs = 4});
  const auto bytes = [&](const std::string& name) {
    return xrun::testing::read_file(dir.path() + "/" + name + "/ckpt/t/step-000040/trunk.safetensors");
  };
  const auto train = [&](const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> words{"train", "m.xgraph", "--progress", "none", "--deterministic", "-C", name};
    words.insert(words.end(), more.begin(), more.end());
    return output(words);
  };
  train("whole", {});
  train("parts", {"--steps", "20"});
  train("parts", {});
  ASSERT_FALSE(bytes("whole").empty());
  EXPECT_EQ(bytes("whole"), bytes("parts"));
  // The data of the second part have other means, but are standardized by the first ones.
  train("kept", {"--steps", "20"});
  const auto scales = [&](const std::string& step) {
    const std::string text = xrun::testing::read_file(dir.path() + "/kept/ckpt/t/" + step + "/manifest.json");
    const size_t at = text.find("\"scales\"");
    return at == std::string::npos ? "" : text.substr(at, text.find(']', text.find("deviations", at)) - at);
  };
  const std::string first = scales("step-000020");
  EXPECT_THAT(first, HasSubstr("\"input\": \"x\""));
  std::string moved = flowers(240);
  dir.write("train.csv", with_line(moved, 3, "99000.0,x,50000.0,7,1"));
  train("kept", {});
  EXPECT_EQ(scales("step-000040"), first);
}

TEST_F(TablesOfFeatures, MissingValuesAreFilledAfterStandardizing) {
  std::string train = flowers(240);
  for (int line = 10; line < 60; line += 3) {
    train = with_line(train, line, "?,x,50000.0,7,0");
  }
  dir.write("train.csv", train);
  write_model({.x = R"(columns("petal length", "petal width") -> standardize -> fill_missing(0))"});
  EXPECT_THAT(output({"check", "--data", "m.xgraph"}), HasSubstr("ok   train"));
  output({"train", "m.xgraph", "--progress", "none"});
  EXPECT_GT(accuracy("test"), 90);
  write_model({});
  EXPECT_THAT(output({"check", "--data", "m.xgraph"}, 1), HasSubstr("is a missing value"));
}

TEST_F(TablesOfFeatures, OtherDelimitersAreRead) {
  for (const char delimiter : {'\t', ';', '|', ' '}) {
    std::string train = flowers(240, delimiter, false);
    std::string test = flowers(60, delimiter, false);
    if (delimiter == ' ') {  // columns that a program has aligned with blanks
      size_t at = 0;
      while ((at = train.find(" 7 ", at)) != std::string::npos) {
        train.replace(at, 3, "   7    ");
        at += 8;
      }
    }
    dir.write("train.csv", train);
    dir.write("test.csv", test);
    const std::string text = delimiter == '\t' ? "\\t" : std::string(1, delimiter);
    write_model({.x = "columns(2..4) -> standardize",
                 .arguments = fmt::format(", delimiter=\"{}\"", text),
                 .label = "column(4) -> as_index(3)"});
    const std::string found = output({"check", "--data", "m.xgraph"});
    EXPECT_THAT(found, HasSubstr("csv: 240 rows of 5 columns")) << text;
    EXPECT_THAT(found, HasSubstr("csv: 60 rows of 5 columns")) << text;
  }
  write_model({.arguments = ", delimiter=\"  \""});
  EXPECT_THAT(output({"check", "m.xgraph"}, 1), HasSubstr("\" \" stands for runs of spaces and tabs"));
}

TEST_F(TablesOfFeatures, EverySourceOfTheDataIsEvaluatedIfItIsNamed) {
  dir.write("extra.csv", flowers(30));
  write_model({.more = "  source extra = csv(\"extra.csv\", header=true)\n"});
  output({"train", "m.xgraph", "--progress", "none"});
  for (const std::string source : {"train", "test", "extra"}) {
    EXPECT_GT(accuracy(source), 95) << source;
  }
  EXPECT_THAT(output({"eval", "ckpt/t", "--on", "train"}), HasSubstr("train   240 samples"));
  EXPECT_THAT(output({"eval", "ckpt/t"}), Not(HasSubstr("train   240 samples"))) << "only if it is named";
  const std::string both = output({"eval", "ckpt/t", "--on", "train", "--on", "test", "--per-class"});
  EXPECT_THAT(both, HasSubstr("train, 3 classes with samples"));
  EXPECT_THAT(both, HasSubstr("test, 3 classes with samples"));
  const std::string unknown = output({"eval", "ckpt/t", "--on", "trian"}, 2);
  EXPECT_THAT(unknown, HasSubstr("error[XG0413]: data `d` has no source `trian`"));
  EXPECT_THAT(unknown, HasSubstr("the nearest is `train`"));
}

TEST_F(TablesOfFeatures, ASourceThatNoMetricReadsIsMeasuredToo) {
  dir.write("extra.csv", flowers(30));
  write_model({.more = "  source extra = csv(\"extra.csv\", header=true)\n",
               .measured = "eval { first = accuracy(logits, label, source=test) }"});
  output({"train", "m.xgraph", "--progress", "none"});
  EXPECT_GT(accuracy("extra"), 95);
  EXPECT_GT(accuracy("train"), 95);
  EXPECT_THAT(output({"eval", "ckpt/t"}), HasSubstr("\nfirst "));
}

}  // namespace
