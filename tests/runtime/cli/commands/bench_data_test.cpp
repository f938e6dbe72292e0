// `xrun bench data` on small data: parts and their sums, broken samples, and calls that it rejects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/runtime/data/data_files.h"
#include "tests/runtime/formats/pictures/jpeg_files.h"
#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BenchData : public runtime::testing::Files {
 protected:
  // Writes 12 JPEG files of two classes, and a model that reads them; `more`: further stages.
  std::string write_model(const std::string& more = "") {
    for (int i = 0; i < 12; ++i) {
      write(std::string("train/") + (i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".jpg",
            runtime::testing::jpeg_file({.height = 60, .width = 80}, static_cast<uint64_t>(i)));
    }
    return write("m.xgraph", R"(xgraph 1
option side: int = 8
model m {
  input x: f32[N, 3, 8, 8]
  logits = x -> flatten -> linear(2)
  output logits
}
data d {
  source train = folder(["train"])
  x     = file -> decode -> random_resized_crop(side) -> random_flip -> normalize(mean=127.5, std=127.5))" +
                                 more + R"(
  label = label -> as_index(2)
}
train t {
  batch     = 4
  norm_rows = 1
  epochs    = 1
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = sgd
  lr        = 0.01
}
)");
  }
};

TEST_F(BenchData, EveryPartOfTheWorkHasItsShareOfTheTime) {
  const std::string model = write_model();
  const CommandResult result =
      run_xrun({"bench", "data", model, "--samples", "40", "--rounds", "3", "--threads", "2", "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("samples"), 12);
  EXPECT_EQ(json.at("batch"), 4);
  EXPECT_EQ(json.at("broken"), 0);
  std::vector<std::string> names;
  for (const auto& part : json.at("parts")) {
    names.push_back(part.at("name"));
    EXPECT_EQ(part.at("seconds").size(), 3U);
    EXPECT_GT(part.at("median_s"), 0) << part;
  }
  EXPECT_THAT(names, ElementsAre("read", "decode", "resize", "random_resized_crop", "random_flip", "normalize", "store",
                                 "as_index"));
  for (size_t round = 0; round < 3; ++round) {
    double sum = 0;
    for (const auto& part : json.at("parts")) {
      sum += part.at("seconds")[round].get<double>();
    }
    EXPECT_NEAR(sum, json.at("all").at("seconds")[round], 1e-9);
  }
  EXPECT_EQ(json.at("loader").at("rates").size(), 3U);
  EXPECT_GT(json.at("loader").at("samples_per_s"), 0);
}

TEST_F(BenchData, MixingReadsASecondSample) {
  const std::string model = write_model(" -> cutmix(1)");
  const CommandResult result =
      run_xrun({"bench", "data", model, "--samples", "12", "--rounds", "1", "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  std::vector<std::string> names;
  const auto json = nlohmann::json::parse(result.out);
  for (const auto& part : json.at("parts")) {
    names.push_back(part.at("name"));
  }
  EXPECT_THAT(names, ::testing::Contains("mix"));
}

TEST_F(BenchData, BrokenSamplesDoNotCount) {
  const std::string model = write_model();
  write("train/a/0.jpg", "no picture");
  const CommandResult result =
      run_xrun({"bench", "data", model, "--samples", "24", "--rounds", "2", "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out).at("broken"), 4);  // twice in each round
  EXPECT_THAT(result.err, HasSubstr("4 samples are broken"));
}

TEST_F(BenchData, OptionsOfTheFileCanBeSet) {
  const std::string model = write_model();
  const CommandResult result = run_xrun({"bench", "data", model, "--set", "side=9", "--samples", "4", "--rounds", "1"});
  EXPECT_EQ(result.exit, 1) << result.out;  // the pictures no longer fit the input
  EXPECT_THAT(result.err, HasSubstr("error[XG0"));
}

TEST_F(BenchData, FilesSourcesAndFlagsThatDoNotFitAreRejected) {
  const std::string model = write_model();
  const auto error_of = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"bench", "data"});
    const CommandResult result = run_xrun(words);
    EXPECT_NE(result.exit, 0);
    return result.err;
  };
  EXPECT_THAT(error_of({model, "--source", "dev"}), HasSubstr("XG0413"));
  EXPECT_THAT(error_of({model, "--rounds", "0"}), HasSubstr("`--rounds 0` is not a number from 1"));
  EXPECT_THAT(error_of({model, "--devices", "2"}), HasSubstr("no effect"));
  EXPECT_THAT(error_of({(root_ / "absent.xgraph").string()}), HasSubstr("XG0121"));
  const std::string bare = write("bare.xgraph", "xgraph 1\nmodel m {\n  input x: f32[N, 2]\n  output x\n}\n");
  EXPECT_THAT(error_of({bare}), HasSubstr("XG0223"));
}

}  // namespace
}  // namespace xrun::testing
