// Broken samples in evaluation and prediction: they are left out, counted, reported by name, and limited by `max_bad`.
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

// Dark pictures are class `a` and light ones class `b`. Ten of the twenty test pictures are torn, all of class `a`. A
// reader that returned black pictures of class 0 for them would make the metrics better.
class BrokenSamples : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_.write("m.xgraph", runtime::testing::folder_model(2));
    for (int i = 0; i < 10; ++i) {
      const std::string name = std::to_string(i) + ".png";
      write("train/a/" + name, runtime::testing::png(4, static_cast<uint8_t>(10 + i)));
      write("train/b/" + name, runtime::testing::png(4, static_cast<uint8_t>(200 + i)));
      write("test/a/" + name, "torn");
      write("test/b/" + name, runtime::testing::png(4, static_cast<uint8_t>(100 + 15 * i)));
    }
    write("test/a/good.png", runtime::testing::png(4, 20));
  }

  void write(const std::string& name, const std::string& bytes) const {
    const fs::path path = fs::path(directory_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  CommandResult run(std::vector<std::string> words) const { return run_xrun(words, {.directory = directory_.path()}); }
  // Trains without an evaluation of the test source.
  void train() const {
    const auto result = run({"train", "m.xgraph", "--progress", "none", "--set", "data.max_bad=50%"});
    ASSERT_EQ(result.exit, 0) << result.err;
  }

  TemporaryDirectory directory_;
};

TEST_F(BrokenSamples, AreLeftOutCountedAndNamedInAnEvaluation) {
  train();
  const std::vector<std::string> words{"eval", "m.xgraph", "ckpt/t", "--set", "data.max_bad=50%"};
  const auto text = run(words);
  ASSERT_EQ(text.exit, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("  test   11 samples; 10 broken left out\n"));
  EXPECT_THAT(text.err, HasSubstr("warning[XG0412]: test/a/3.png of source `test`: "));
  auto with_json = words;
  with_json.insert(with_json.end(), {"--format", "json"});
  const auto printed = run(with_json);
  ASSERT_EQ(printed.exit, 0) << printed.err;
  const json object = json::parse(printed.out);
  EXPECT_EQ(object["samples"]["test"], 11);
  EXPECT_EQ(object["broken"]["test"], 10);
  ASSERT_EQ(object["broken_samples"].size(), 10U);
  EXPECT_EQ(object["broken_samples"][9]["sample"], "test/a/9.png");
  EXPECT_EQ(object["broken_samples"][9]["source"], "test");
  EXPECT_THAT(object["broken_samples"][9]["message"].get<std::string>(), HasSubstr("no PNG, JPEG, WebP"));

  // The metrics must equal those without these files.
  for (int i = 0; i < 10; ++i) {
    fs::remove(directory_.path() + "/test/a/" + std::to_string(i) + ".png");
  }
  const auto without = run({"eval", "m.xgraph", "ckpt/t", "--format", "json"});
  ASSERT_EQ(without.exit, 0) << without.err;
  EXPECT_EQ(json::parse(without.out)["metrics"], object["metrics"]);
  EXPECT_EQ(json::parse(without.out)["broken"]["test"], 0);
}

TEST_F(BrokenSamples, EndAnEvaluationBeyondMaxBad) {
  train();
  const auto result = run({"eval", "m.xgraph", "ckpt/t"});
  EXPECT_EQ(result.exit, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("error[XG0408]: 1 of 21 samples are broken, more than `max_bad` allows"));
  fs::remove_all(directory_.path() + "/test/b");
  fs::create_directories(directory_.path() + "/test/b");
  fs::remove(directory_.path() + "/test/a/good.png");
  const auto all = run({"eval", "m.xgraph", "ckpt/t", "--set", "data.max_bad=100%"});
  EXPECT_EQ(all.exit, 1);
  EXPECT_THAT(all.err, HasSubstr("error[XG0408]: no sample of source `test` can be read"));
}

TEST_F(BrokenSamples, AreCountedInEachEvaluationOfARunAndNamedOnce) {
  const auto result =
      run({"train", "m.xgraph", "--progress", "json", "--set", "data.max_bad=50%", "--set", "train.epochs=3"});
  ASSERT_EQ(result.exit, 0) << result.err;
  std::istringstream lines(result.out);
  int warnings = 0;
  int evaluations = 0;
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    warnings += event["t"] == "warn" && event["code"] == "XG0412" ? 1 : 0;
    if (event["t"] == "eval") {
      ++evaluations;
      EXPECT_EQ(event["broken"]["test"], 10);
      EXPECT_EQ(event["samples"]["test"], 11);
    }
  }
  EXPECT_EQ(evaluations, 3);
  EXPECT_EQ(warnings, 10);
  const auto plain = run(
      {"train", "m.xgraph", "--progress", "plain", "--set", "data.max_bad=50%", "--resume", "never", "-C", "other"});
  EXPECT_THAT(plain.err, HasSubstr(" test.broken=10"));
}

TEST_F(BrokenSamples, AreLeftOutAndNamedInAPrediction) {
  train();
  const std::vector<std::string> words{"predict",      "m.xgraph", "ckpt/t",          "test/b/9.png",
                                       "test/a/1.png", "--set",    "data.max_bad=50%"};
  const auto text = run(words);
  ASSERT_EQ(text.exit, 0) << text.err;
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 1) << text.out;
  EXPECT_THAT(text.out, Not(HasSubstr("test/a/1.png")));
  EXPECT_THAT(text.err, HasSubstr("warning[XG0412]: test/a/1.png of source `pictures`: "));
  EXPECT_THAT(text.err, HasSubstr("note: 1 of 2 samples broken and left out\n"));
  auto with_json = words;
  with_json.insert(with_json.end(), {"--format", "json"});
  const auto printed = run(with_json);
  ASSERT_EQ(printed.exit, 0) << printed.err;
  std::istringstream lines(printed.out);
  std::string first, second;
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_EQ(json::parse(first)["input"], "test/b/9.png");
  EXPECT_EQ(json::parse(second)["input"], "test/a/1.png");
  EXPECT_THAT(json::parse(second)["broken"].get<std::string>(), HasSubstr("no PNG, JPEG, WebP"));
  const auto refused = run({"predict", "m.xgraph", "ckpt/t", "test/b/9.png", "test/a/1.png"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("XG0408]: 1 of 2 samples are broken"));
}

TEST_F(BrokenSamples, HaveNoEmbedding) {
  train();
  const auto result = run({"predict", "m.xgraph", "ckpt/t", "--source", "test", "--rows", "8..13", "--embedding", "-o",
                           "e.npy", "--format", "json", "--set", "data.max_bad=50%"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const json object = json::parse(result.out);
  EXPECT_EQ(object["rows"], 3) << "8 and 9 are torn";
  ASSERT_EQ(object["broken"].size(), 2U);
  EXPECT_EQ(object["broken"][1]["input"], "test/a/9.png");
  EXPECT_THAT(read_file(directory_.path() + "/e.npy"), HasSubstr("'shape': (3, 2)"));
  const auto text = run({"predict", "m.xgraph", "ckpt/t", "--source", "test", "--rows", "8..13", "--embedding", "--set",
                         "data.max_bad=50%"});
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 3) << text.out;
  const auto all =
      run({"predict", "m.xgraph", "ckpt/t", "--source", "test", "--rows", "0..5", "--set", "data.max_bad=100%"});
  EXPECT_EQ(all.exit, 1);
  EXPECT_THAT(all.err, HasSubstr("XG0408]: no named file can be read"));
}

}  // namespace
}  // namespace xrun::testing
