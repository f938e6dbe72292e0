// Recall of retrieval, compared with all pairs in f64, and in evaluations.
#include "runtime/train/evaluation/recall.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graph/base/random.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;
using testing::run_xrun;
using testing::TemporaryDirectory;

struct Samples {
  int64_t dim;
  std::vector<std::vector<float>> features;
  std::vector<int32_t> labels;
};

Samples draw(uint64_t seed, int64_t count, int64_t dim, int32_t classes) {
  const RandomStream stream(seed, 0);
  Samples made{.dim = dim, .features = {}, .labels = {}};
  uint64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    // Labels above 65535 need both 16-bit halves. Some samples have no label.
    const auto drawn = static_cast<int32_t>(stream.below(at++, static_cast<uint64_t>(classes)));
    made.labels.push_back(stream.below(at++, 10) == 0 ? -1 : 70'000 * (drawn + 1));
    auto& row = made.features.emplace_back();
    for (int64_t d = 0; d < dim; ++d) {
      row.push_back(static_cast<float>(drawn % (d + 2)) + 2 * stream.normal(at++));
    }
  }
  return made;
}

double by_all_pairs(const Samples& of, int64_t k) {
  const auto cosine = [&](size_t a, size_t b) {
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (size_t d = 0; d < static_cast<size_t>(of.dim); ++d) {
      ab += static_cast<double>(of.features[a][d]) * of.features[b][d];
      aa += static_cast<double>(of.features[a][d]) * of.features[a][d];
      bb += static_cast<double>(of.features[b][d]) * of.features[b][d];
    }
    return ab / std::sqrt(aa * bb);
  };
  double right = 0;
  double labelled = 0;
  for (size_t i = 0; i < of.labels.size(); ++i) {
    if (of.labels[i] < 0) {
      continue;
    }
    ++labelled;
    std::vector<std::pair<double, size_t>> others;
    for (size_t j = 0; j < of.labels.size(); ++j) {
      if (j != i) {
        others.emplace_back(-cosine(i, j), j);
      }
    }
    std::ranges::sort(others);
    others.resize(std::min(others.size(), static_cast<size_t>(k)));
    right += std::ranges::any_of(others, [&](const auto& other) { return of.labels[other.second] == of.labels[i]; });
  }
  return right / labelled;
}

TEST(Recall, EqualsTheCountOverAllPairs) {
  for (const auto& [count, dim, classes] : {std::tuple{2, 4, 1}, std::tuple{90, 5, 7}, std::tuple{700, 24, 40}}) {
    const Samples samples = draw(static_cast<uint64_t>(count), count, dim, classes);
    for (const int64_t k : {1, 4, 1000}) {
      Recall recall(dim, k);
      for (size_t i = 0; i < samples.labels.size(); ++i) {
        std::vector<float> row = samples.features[i];
        row.push_back(static_cast<float>(samples.labels[i] >> 16));
        row.push_back(static_cast<float>(samples.labels[i] & 0xFFFF));
        recall.add(row.data());
      }
      const double one = recall.measure(1, nullptr).value();
      EXPECT_EQ(recall.measure(3, nullptr).value(), one);
      EXPECT_NEAR(one, by_all_pairs(samples, k), 1e-9) << count << " samples, k " << k;
    }
  }
}

TEST(Recall, IsZeroWithoutPairs) {
  EXPECT_EQ(Recall(3, 1).measure(1, nullptr).value(), 0);
  Recall one(1, 1);
  const float row[] = {1, 0, 5};
  one.add(row);
  EXPECT_EQ(one.measure(1, nullptr).value(), 0);
}

constexpr const char* kRetrieval = R"(xgraph 1

model retrieval {
  input x: f32[N, 16]

  feature = x -> linear(32) -> bn -> relu -> linear(8) -> bn
  output feature

  head id = cosine_classifier(feature, 20)
}

data made {
  source train = synthetic([16], 20, 640)
  source test  = synthetic([16], 20, 230, seed=2)

  x = pixels
}

train quick {
  batch     = 32
  epochs    = 3
  norm_rows = 8
  loss      = cosface(id, label, margin=0.05, scale=12)
  metrics   = [accuracy(id, label), recall_at(feature, label), recall_at(feature, label, k=4)]
  optimizer = adamw
  lr        = 1e-2
}
)";

TEST(Recall, FeaturesThatDoNotFitEndARunBeforeItsFirstStep) {
  const TemporaryDirectory directory;
  std::string text = kRetrieval;
  text.replace(text.find("20, 230, seed=2"), 15, "20, 3_000_000, seed=2");
  directory.write("retrieval.xgraph", text + "\ncluster c {\n  node {\n    cores = 2\n    memory = 1GiB\n  }\n}\n");
  for (const char* command : {"train", "plan"}) {
    const auto result = run_xrun({command, "retrieval.xgraph"}, {.directory = directory.path()});
    EXPECT_EQ(result.exit, 3) << result.err;
    EXPECT_THAT(result.err, HasSubstr("error[XG0601]: does not fit: with its data the run needs"));
    EXPECT_THAT(result.err, HasSubstr("for the features that `recall_at` compares"));
  }
}

TEST(Recall, MemoryGrowsWithTheSamplesTheirFeaturesAndTheirNeighbours) {
  EXPECT_EQ(recall_features(1000, 64), 1000 * 65 * 4);
  const Bytes one = recall_search(100'000, 64, 1, 1);
  EXPECT_GT(recall_search(200'000, 64, 1, 1), one);
  EXPECT_GT(recall_search(100'000, 256, 1, 1), one);
  EXPECT_GT(recall_search(100'000, 64, 100, 1), one);
}

TEST(Recall, IsMeasuredInEvaluationsOfEveryPlan) {
  const TemporaryDirectory directory;
  directory.write("retrieval.xgraph", kRetrieval);
  const auto run = [&](const std::vector<std::string>& words) {
    return run_xrun(words, {.directory = directory.path()});
  };
  const auto trained = run({"train", "retrieval.xgraph", "--progress", "plain"});
  ASSERT_EQ(trained.exit, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("test.recall_at="));
  const auto metrics = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> words{"eval", "retrieval.xgraph", "ckpt/quick", "--format", "json"};
    words.insert(words.end(), flags.begin(), flags.end());
    const auto result = run(words);
    EXPECT_EQ(result.exit, 0) << result.err;
    return nlohmann::json::parse(result.out)["metrics"].dump();
  };
  const std::string one = metrics({"--devices", "1"});
  EXPECT_THAT(one, HasSubstr("recall_at"));
  EXPECT_EQ(metrics({"--devices", "3"}), one);
  EXPECT_EQ(metrics({"--set", "train.batch=96"}), one);
}

}  // namespace
}  // namespace xrun::runtime
