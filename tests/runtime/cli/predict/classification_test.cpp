// Probabilities and logits of `predict`, and the results of `eval` per class. Numbers that two commands report must be
// equal.
#include "runtime/cli/predict/classification.h"

#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
namespace fs = std::filesystem;

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(json::parse(line));
  }
  return lines;
}

std::vector<std::vector<std::string>> table_of(const std::string& text, char delimiter) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, delimiter);) {
      rows.back().push_back(cell);
    }
  }
  return rows;
}

class Scores : public ::testing::Test {
 protected:
  CommandResult run(std::vector<std::string> words, const std::vector<std::string>& more = {},
                    CommandOptions options = {}) const {
    words.insert(words.end(), more.begin(), more.end());
    options.directory = directory.path();
    return run_xrun(words, options);
  }
  // Returns the scores of all classes for the rows 0..40.
  std::vector<json> scores(const std::string& file, const std::string& which, int classes,
                           const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> words{
        "predict",  file,  "ckpt/t",   "--source", "test", "--rows", "0..40", "--topk", std::to_string(classes),
        "--scores", which, "--format", "json"};
    const auto result = run(words, flags);
    EXPECT_EQ(result.exit, 0) << result.err;
    return lines_of(result.out);
  }
  // Expects that probabilities are softmax(scale · logits) over all classes; each line lists all of them.
  static void expect_softmax(const std::vector<json>& logits, const std::vector<json>& probabilities, double scale) {
    ASSERT_EQ(logits.size(), 40u);
    ASSERT_EQ(probabilities.size(), 40u);
    for (size_t row = 0; row < logits.size(); ++row) {
      EXPECT_EQ(logits[row]["scores"], "logits");
      EXPECT_EQ(probabilities[row]["scores"], "probabilities");
      double sum = 0;
      for (const json& one : logits[row]["classes"]) {
        sum += std::exp(scale * (one["score"].get<double>() - logits[row]["classes"][0]["score"].get<double>()));
      }
      for (size_t i = 0; i < logits[row]["classes"].size(); ++i) {
        const json& logit = logits[row]["classes"][i];
        const json& probability = probabilities[row]["classes"][i];
        EXPECT_EQ(logit["class"], probability["class"]);
        const double expected =
            std::exp(scale * (logit["score"].get<double>() - logits[row]["classes"][0]["score"].get<double>())) / sum;
        EXPECT_NEAR(probability["score"].get<double>(), expected, 1e-5) << "row " << row << " place " << i;
      }
    }
  }
  void write_tiny() const {
    std::string text = tiny_model();
    const std::string accuracy = "accuracy(id, label)";
    text.replace(text.find(accuracy), accuracy.size(), "accuracy(id, label), accuracy(id, label, k=130)");
    text.replace(text.find("train quick"), 11, "train t");
    text.replace(text.find("int = 37"), 8, "int = 130");  // three blocks of classes
    text.replace(text.find("37 * 24"), 2, "130");
    directory.write("m.xgraph", text);
  }
  TemporaryDirectory directory;
};

constexpr const char* kDense = R"(xgraph 1
model m {
  input x: f32[N, 6]
  input kind: index(6)[N]
  logits = x -> linear(6)
  output logits
}
data d {
  source train = synthetic([6], 6, 300)
  source test  = synthetic([6], 6, 200, seed=2)
  x    = pixels
  kind = label
}
train t {
  batch     = 32
  norm_rows = 8
  epochs    = 2
  loss      = softmax_ce(logits, kind, scale=3)
  metrics   = [accuracy(logits, kind), accuracy(logits, kind, k=6)]
  optimizer = sgd
  lr        = 0.1
}
)";

TEST_F(Scores, AreProbabilitiesOverAllClassesOfDenseLogits) {
  directory.write("m.xgraph", kDense);
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  const auto probabilities = scores("m.xgraph", "probabilities", 6);
  expect_softmax(scores("m.xgraph", "logits", 6), probabilities, 3);
  // Listing fewer classes does not change the scores, nor does leaving the flag out.
  const auto two = lines_of(
      run({"predict", "ckpt/t", "--source", "test", "--rows", "0..40", "--topk", "2", "--format", "json"}).out);
  ASSERT_EQ(two.size(), 40u);
  EXPECT_EQ(two[7]["classes"][1], probabilities[7]["classes"][1]);
}

// The plans have one pass over the batch, or one pass for each micro-batch of two replicas.
TEST_F(Scores, AreProbabilitiesOverAllShardsOfAHead) {
  write_tiny();
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none"}).exit, 0);
  std::vector<json> first;
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--devices", "1"},
                                             {"--devices", "2", "--set", "schedule.shard.id.over=2"},
                                             {"--devices", "2", "--set", "schedule.stages=2", "--set",
                                              "schedule.pipeline=one_f_one_b", "--set", "schedule.micro_batches=4"},
                                             {"--devices", "2", "--set", "schedule.replicas=2", "--set",
                                              "schedule.pipeline=one_f_one_b", "--set", "schedule.micro_batches=4"}}) {
    const auto probabilities = scores("m.xgraph", "probabilities", 130, flags);
    expect_softmax(scores("m.xgraph", "logits", 130, flags), probabilities, 12);
    EXPECT_TRUE(first.empty() || first == probabilities) << flags.back();
    first = probabilities;
  }
}

TEST_F(Scores, AreNamedInTheTextOutputAndUnknownKindsAreRejected) {
  directory.write("m.xgraph", kDense);
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none", "--steps", "1"}).exit, 0);
  const std::vector<std::string> words{"predict", "ckpt/t", "--source", "test", "--rows", "0..1", "--topk", "1"};
  EXPECT_THAT(run(words).out, MatchesRegex("synthetic sample 0   probabilities   [0-5] 0\\.[0-9]{4}\n"));
  EXPECT_THAT(run(words, {"--scores", "logits"}).out,
              MatchesRegex("synthetic sample 0   logits   [0-5] -?[0-9]+\\.[0-9]{4}\n"));
  const auto near = run(words, {"--scores", "logit"});
  EXPECT_EQ(near.exit, 2);
  EXPECT_THAT(near.err, HasSubstr("help: did you mean `logits`?"));
  EXPECT_THAT(run(words, {"--scores", "odds"}).err, HasSubstr("`xrun predict --help` lists what it takes"));
  EXPECT_THAT(run({"predict", "ckpt/t", "--source", "test", "--embedding", "--scores", "logits"}).err,
              HasSubstr("`--embedding` and `--scores` exclude one another"));
}

// Compares the tables of `eval` with the classes that `predict` names.
TEST_F(Scores, EvaluationByClassAgreesWithPrediction) {
  for (const bool head : {false, true}) {
    const std::string directory_of_run = head ? "head" : "dense";
    if (head) {
      write_tiny();
    } else {
      directory.write("m.xgraph", kDense);
    }
    ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none", "-C", directory_of_run}).exit, 0);
    const std::string checkpoint = directory_of_run + "/ckpt/t";
    const auto result = run({"eval", checkpoint, "--per-class", "--confusion", directory_of_run + ".csv", "--wrong",
                             directory_of_run + "_wrong", "--format", "json"});
    ASSERT_EQ(result.exit, 0) << result.err;
    const json evaluation = json::parse(result.out);
    EXPECT_GT(evaluation["step"].get<int>(), 0);
    const auto predicted = lines_of(run({"predict", checkpoint, "--source", "test", "--format", "json"}).out);
    std::map<std::string, json> best;
    for (const json& line : predicted) {
      best[line["input"]] = line["classes"][0];
    }
    // The list of wrong samples has the names, classes and probabilities of `predict`.
    const auto wrong = table_of(read_file(directory.path() + "/" + directory_of_run + "_wrong/wrong.tsv"), '\t');
    ASSERT_GT(wrong.size(), 1u);
    EXPECT_EQ(wrong[0], (std::vector<std::string>{"source", "name", "class", "class_name", "predicted",
                                                  "predicted_name", "probability"}));
    for (size_t i = 1; i < wrong.size(); ++i) {
      const json& named = best.at(wrong[i][1]);
      EXPECT_EQ(std::stoi(wrong[i][4]), named["class"].get<int>());
      EXPECT_NE(wrong[i][2], wrong[i][4]);
      EXPECT_NEAR(std::stod(wrong[i][6]), named["score"].get<double>(), 1e-6);
    }
    // The counts of pairs of classes add up to the number of samples, with the wrong ones off the diagonal.
    const auto pairs = table_of(read_file(directory.path() + "/" + directory_of_run + ".csv"), ',');
    int64_t samples = 0;
    int64_t off = 0;
    std::map<int64_t, int64_t> by_class;
    for (size_t i = 1; i < pairs.size(); ++i) {
      const int64_t count = std::stoll(pairs[i][5]);
      samples += count;
      off += pairs[i][1] == pairs[i][3] ? 0 : count;
      by_class[std::stoll(pairs[i][1])] += count;
    }
    EXPECT_EQ(samples, evaluation["samples"]["test"].get<int64_t>());
    EXPECT_EQ(off, std::ssize(wrong) - 1);
    EXPECT_EQ(off, evaluation["misclassified"]["test"].get<int64_t>());
    const std::string first_metric = evaluation["metrics"].begin().key();
    EXPECT_NEAR(evaluation["metrics"][first_metric].get<double>(),
                1 - static_cast<double>(off) / static_cast<double>(samples), 1e-9);
    for (const json& one : evaluation["per_class"]["test"]) {
      EXPECT_EQ(one["samples"].get<int64_t>(), by_class[one["class"].get<int64_t>()]);
    }
  }
}

TEST_F(Scores, FilesOfAnEvaluationReplaceOnlyTheirOwnKindAndAreComplete) {
  directory.write("m.xgraph", kDense);
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none", "--steps", "1"}).exit, 0);
  const auto other = run({"eval", "ckpt/t", "--confusion", "m.xgraph"});
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, HasSubstr("`m.xgraph` exists and is not a table of pairs of classes"));
  const auto nowhere = run({"eval", "ckpt/t", "--confusion", "none/c.csv"});
  EXPECT_EQ(nowhere.exit, 4);
  EXPECT_THAT(nowhere.err, HasSubstr("there is no directory `none`"));
  for (const char* place : {"m.xgraph", "none/wrong"}) {
    EXPECT_THAT(run({"eval", "ckpt/t", "--wrong", place}).err, HasSubstr("is not a directory and cannot be created"));
  }
  const auto full = run({"eval", "ckpt/t", "--confusion", "c.csv", "--wrong", "wrong"}, {}, {.file_size_limit = 512});
  EXPECT_EQ(full.exit, 4) << full.err;
  EXPECT_FALSE(fs::exists(directory.path() + "/c.csv"));
  EXPECT_FALSE(fs::exists(directory.path() + "/wrong"));
  ASSERT_EQ(run({"eval", "ckpt/t", "--confusion", "c.csv", "--wrong", "wrong"}).exit, 0);
  const auto again = run({"eval", "ckpt/t", "--confusion", "c.csv", "--wrong", "wrong"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.out, ContainsRegex("  wrong/wrong.tsv   [0-9]+ misclassified samples of test\n"));
  EXPECT_THAT(again.out, ContainsRegex("  c.csv   [0-9]+ pairs of classes of test\n"));
  EXPECT_THAT(read_file(directory.path() + "/c.csv"),
              StartsWith("source,class,class_name,predicted,predicted_name,samples\ntest,0,0,"));
}

TEST(PerClass, ListsTheWorstFirstAndCountsTheOmittedClasses) {
  cli::SourceClasses source{.source = "test"};
  source.pairs = {{{0, 0}, 8}, {{0, 1}, 2}, {{1, 0}, 3}, {{1, 1}, 1}, {{1, 2}, 3}, {{2, 2}, 5}, {{3, -1}, 1}};
  source.names = cli::ClassNames{{"cat", "dog", "cow\n", "hen"}};
  EXPECT_EQ(cli::per_class_text(source),
            "\ntest, 4 classes with samples, the worst first\n"
            "  class    samples   accuracy  precision  most often taken for\n"
            "  hen            1     0.00 %          -  none (1)\n"
            "  dog            7    14.29 %    33.33 %  cat (3)\n"
            "  cat           10    80.00 %    72.73 %  dog (2)\n"
            "  cow\u240a           5   100.00 %    62.50 %  -\n");
  const json list = json::parse(cli::per_class_json(source).dump());
  EXPECT_EQ(list.size(), 4u);
  EXPECT_EQ(list[1], json::parse(R"({"class":1,"name":"dog","samples":7,"right":1,"predicted":3,
      "accuracy":0.14285714285714285,"precision":0.3333333333333333,
      "taken_for":{"class":0,"name":"cat","samples":3}})"));
  EXPECT_EQ(list[3]["precision"], nullptr);
  for (int64_t label = 10; label < 40; ++label) {
    source.pairs[{label, label}] = 1;
  }
  EXPECT_THAT(cli::per_class_text(source), HasSubstr("\n  and 14 more: --format json lists all\n"));
}

}  // namespace
}  // namespace xrun::testing
