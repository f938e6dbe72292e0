#include "runtime/device/gradient_sums.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "graph/layouts/norm_layout.h"
#include "tests/runtime/runs/compressed_runs.h"

namespace xrun::runtime {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// A model with a head, and sums of squares that are all 1.
struct Sums {
  testing::Prepared prepared;
  planner::Program program;
  NormLayout layout;
  std::vector<double> squares;

  explicit Sums(LossScaleSpec::Kind kind, ClipSpec clip = {}, double density = 0, int replicas = 1) {
    testing::ModelOptions options{.classes = 130, .head = true, .precision = PrecisionMode::kMixedF16};
    options.loss_scale.kind = kind;
    options.clip = clip;
    CompressSpec compress;
    compress.density = density;
    prepared = testing::prepare_for(testing::compressed_module(options, compress));
    program = testing::make_program(
                  prepared, {.devices = replicas, .threads = replicas, .replicas = replicas, .micro_batches = replicas})
                  .value();
    layout = norm_layout(prepared.module, program.senders());
    squares.assign(static_cast<size_t>(layout.total), 1.0);
  }
  double& square(const std::string& name, int sender = 0) {
    const auto& params = prepared.module.graph.params;
    for (size_t p = 0; p < params.size(); ++p) {
      if (params[p].name == name) {
        return squares.at(static_cast<size_t>(layout.offset(ParamId(p), sender)) / sizeof(double));
      }
    }
    throw std::out_of_range(name);
  }
  UpdateDecision decide(double scale) const { return GradientSums(prepared.module, program).decide(squares, scale); }
};

TEST(GradientSums, TheFactorOfStagesRemovesTheScale) {
  const UpdateDecision decision = Sums(LossScaleSpec::kDynamic).decide(1024);
  EXPECT_FALSE(decision.skips);
  EXPECT_TRUE(decision.finite);
  EXPECT_EQ(decision.of_stages, 1.0 / 1024);
  EXPECT_EQ(decision.of_heads, 1);
}

TEST(GradientSums, TheNormCountsStagesWithoutTheScaleAndHeadsAsTheyAre) {
  Sums sums(LossScaleSpec::kDynamic, {ClipSpec::kNorm, 0.5, true});
  // The bias has the number of gradients that the weight has.
  const auto heads =
      static_cast<double>(sums.layout.count[static_cast<size_t>(sums.program.heads[0].weight.index)]) * 2;
  const double stages = static_cast<double>(sums.layout.total) - heads;
  const UpdateDecision decision = sums.decide(16);
  EXPECT_DOUBLE_EQ(decision.norm, std::sqrt(stages / 256 + heads));
  EXPECT_DOUBLE_EQ(decision.of_heads, 0.5 / decision.norm);
  EXPECT_EQ(decision.of_stages, decision.of_heads / 16);
}

TEST(GradientSums, HeadsAreClippedOnlyIfTheNormCountsThem) {
  Sums sums(LossScaleSpec::kDynamic, {ClipSpec::kNorm, 0.05, false});
  const UpdateDecision decision = sums.decide(16);
  EXPECT_GT(decision.norm, 0.05);
  EXPECT_DOUBLE_EQ(decision.of_stages, 0.05 / decision.norm / 16);
  EXPECT_EQ(decision.of_heads, 1);
}

TEST(GradientSums, OnlyADynamicScaleAboveOneSkips) {
  for (const double broken : {kInf, std::nan("")}) {
    Sums dynamic(LossScaleSpec::kDynamic);
    dynamic.square("stem.weight") = broken;
    EXPECT_TRUE(dynamic.decide(2).skips);
    EXPECT_FALSE(dynamic.decide(1).skips);
    EXPECT_FALSE(dynamic.decide(1).finite);
    Sums fixed(LossScaleSpec::kFixed);
    fixed.square("stem.weight") = broken;
    EXPECT_FALSE(fixed.decide(1024).skips);
    EXPECT_FALSE(fixed.decide(1024).finite);
  }
}

TEST(GradientSums, AStepIsNotSkippedIfTheGradientOfAHeadIsNotFinite) {
  Sums sums(LossScaleSpec::kDynamic, {ClipSpec::kNorm, 0.5, true});
  sums.square("id.weight") = kInf;
  const UpdateDecision decision = sums.decide(1024);
  EXPECT_FALSE(decision.finite);
  EXPECT_FALSE(decision.skips) << "the gradient of a head does not depend on the scale";
}

TEST(GradientSums, AnySenderOfACompressedGradientCanSkipButNoneIsClippedByTheNormOfAll) {
  Sums sums(LossScaleSpec::kDynamic, {ClipSpec::kNorm, 0.5, false}, 0.1, 2);
  const double norm = sums.decide(16).norm;
  sums.square("stem.weight", 1) = 1e30;
  EXPECT_EQ(sums.decide(16).norm, norm);
  EXPECT_FALSE(sums.decide(16).skips);
  sums.square("stem.weight", 1) = kInf;
  EXPECT_TRUE(sums.decide(16).skips);
}

}  // namespace
}  // namespace xrun::runtime
