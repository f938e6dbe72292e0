// Which metrics an evaluation measures on which sources, and under which keys.
#include "runtime/train/evaluation/inference.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

MetricSpec metric(std::string name, int value, std::string source = "") {
  return {.name = std::move(name), .value = ValueId{value}, .source = std::move(source)};
}

// "key source value" of each measure.
std::vector<std::string> measures(const TrainSpec& train, const std::vector<std::string>& sources, bool asked) {
  std::vector<std::string> found;
  Module module{.train = train};
  for (int value = 0; value < 8; ++value) {
    module.graph.add_input("x" + std::to_string(value), {.dims = {kBatch}});
  }
  for (const Measure& one : measures_of(module, sources, {.all = asked})) {
    found.push_back(fmt::format("{} {} {}", one.key, one.source, one.value.index));
  }
  return found;
}

TEST(Measures, MetricsWithoutASourceReadTheTrainingSourceOnlyIfItIsAskedFor) {
  TrainSpec train;
  train.metrics = {metric("accuracy", 3)};
  EXPECT_THAT(measures(train, {"train", "test"}, false), ElementsAre("test test 3"));
  EXPECT_THAT(measures(train, {"train", "test"}, true), ElementsAre("train train 3", "test test 3"));
  train.metrics.push_back(metric("topk", 4));
  EXPECT_THAT(measures(train, {"train"}, false), IsEmpty());
  EXPECT_THAT(measures(train, {"train"}, true), ElementsAre("train.accuracy train 3", "train.topk train 4"));
}

TEST(Measures, ASourceThatNoMetricReadsGetsEachMetricOnceIfItIsAskedFor) {
  TrainSpec train;
  train.eval = {metric("first", 3, "test"), metric("second", 3, "val"), metric("loss", 5, "val")};
  EXPECT_THAT(measures(train, {"train", "test", "val", "extra"}, false),
              ElementsAre("first test 3", "second val 3", "loss val 5"));
  EXPECT_THAT(measures(train, {"test", "val"}, true), ElementsAre("first test 3", "second val 3", "loss val 5"));
  EXPECT_THAT(measures(train, {"train", "val"}, true),
              ElementsAre("second val 3", "loss val 5", "train.first train 3", "train.loss train 5"));
  train.eval = {metric("first", 3, "test")};
  EXPECT_THAT(measures(train, {"extra"}, true), ElementsAre("extra extra 3"));
}

// "key source value" of each measure of the sources `train`, `val`, a folder, and `lfw`, `cfp` and `ijbc`, which have
// pairs. Value 2 verifies.
std::vector<std::string> measures_of_faces(const std::vector<MetricSpec>& eval,
                                           const std::vector<std::string>& sources) {
  Module module;
  module.train.eval = eval;
  module.graph.add_input("feature", {.dims = {kBatch, 8}});
  module.graph.add_input("hits", {.dims = {kBatch}});
  EXPECT_TRUE(call_op(module.graph, ops::find_op("verification")->def, {ValueId{0}}, {{"folds", int64_t{5}}},
                      "metrics.lfw", Span{0, 1, 2})
                  .ok());
  for (const std::string name : {"train", "val"}) {
    module.data.sources.push_back({.name = name, .reader = {"folder", {{"paths", TextList{name}}}, {}}});
  }
  for (const std::string name : {"lfw", "cfp", "ijbc"}) {
    module.data.sources.push_back({.name = name, .reader = {"pairs", {{"path", name}}, {}}});
  }
  module.data.sources.back().reader.args.set("templates", std::string("t.txt"));
  std::vector<std::string> found;
  for (const Measure& one : measures_of(module, sources, {.all = true})) {
    EXPECT_EQ(one.verification.has_value(), one.value == ValueId{2});
    EXPECT_EQ(one.verification.value_or(VerificationSpec{.folds = 5}).folds, 5);
    found.push_back(fmt::format("{} {} {}", one.key, one.source, one.value.index));
  }
  return found;
}

TEST(Measures, ASourceOfPairsThatNoMetricReadsGetsTheVerificationsAndNoOtherMetric) {
  const MetricSpec lfw = metric("lfw", 2, "lfw");
  const MetricSpec seen = metric("seen", 1, "train");
  EXPECT_THAT(measures_of_faces({lfw}, {"cfp"}), ElementsAre("cfp cfp 2"));
  EXPECT_THAT(measures_of_faces({lfw, seen}, {"lfw", "cfp", "ijbc"}),
              ElementsAre("lfw lfw 2", "cfp cfp 2", "ijbc ijbc 2"));
  EXPECT_THAT(measures_of_faces({lfw, seen}, {"val"}), ElementsAre("val val 1"));
  EXPECT_THAT(measures_of_faces({seen}, {"cfp"}), IsEmpty());
  EXPECT_THAT(measures_of_faces({lfw}, {"train", "val"}), IsEmpty());
}

}  // namespace
}  // namespace xrun::runtime
