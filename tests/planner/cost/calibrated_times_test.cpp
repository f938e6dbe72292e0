#include "planner/cost/calibrated_times.h"

#include <gtest/gtest.h>

#include "graph/base/random.h"
#include "planner/cost/cost_model.h"
#include "tests/planner/decisions.h"

namespace xrun::planner::testing {
namespace {

TEST(CalibratedTimes, AMeasuredCallHasItsTime) {
  const std::vector<CallTime> measured{{1e6, 1e4, 10e-6}, {1e8, 1e5, 400e-6}, {1e9, 1e7, 9e-3}};
  for (const CallTime& call : measured) {
    EXPECT_NEAR(calibrated_time(measured, call.flops, call.bytes) / call.time, 1, 0.01);
  }
}

TEST(CalibratedTimes, TimesBetweenMeasuredCallsLieBetweenTheirRates) {
  constexpr uint64_t kSeed = 7;
  const RandomStream stream(kSeed, 0);
  uint64_t next = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<CallTime> measured;
    double least = 1e300;
    double most = 0;
    for (int i = 0; i < 6; ++i) {
      const double bytes = std::pow(10, 3 + 5 * stream.uniform(next++));
      const double flops = bytes * std::pow(10, 2 * stream.uniform(next++));
      const double ratio = std::pow(10, -10 + stream.uniform(next++));
      measured.push_back({flops, bytes, ratio * std::max(flops / 16, bytes)});
      least = std::min(least, ratio);
      most = std::max(most, ratio);
    }
    const double bytes = std::pow(10, 3 + 5 * stream.uniform(next++));
    const double flops = bytes * std::pow(10, 2 * stream.uniform(next++));
    const double ratio = calibrated_time(measured, flops, bytes) / std::max(flops / 16, bytes);
    EXPECT_GE(ratio, least * 0.999) << "seed " << kSeed << ", trial " << trial;
    EXPECT_LE(ratio, most * 1.001) << "seed " << kSeed << ", trial " << trial;
  }
}

TEST(CalibratedTimes, CallsOfAMeasuredKindHaveItsTimesAndOthersTheFormulas) {
  const Module module = prepare_training(make_module({.layers = 1}));
  KernelFacts facts = make_facts(module);
  for (KernelFact& fact : facts.nodes) {
    fact.time.reset();
  }
  facts.nodes[0].time = 5.0;
  const KernelFacts before = facts;
  auto calibration = std::make_shared<Calibration>();
  calibration->instructions = "avx2";
  const std::string kind = call_kind(module.graph, module.graph.nodes[1]);
  calibration->f32[kind] = {{1e6, 1e6, 1e-3}};
  calibration->f32[call_kind(module.graph, module.graph.nodes[0])].push_back({1e6, 1e6, 1e-3});
  calibration->slow_down = {1, 1.5};
  calibration->update = 3e9;
  use_calibration(calibration, module, 1, facts);
  EXPECT_EQ(facts.nodes[0].time, 5.0) << "a time that was given stays";
  ASSERT_TRUE(facts.nodes[1].time);
  EXPECT_EQ(facts.bytes_per_second, 3e9);
  KernelFacts slower = before;
  use_calibration(calibration, module, 8, slower);
  EXPECT_DOUBLE_EQ(*slower.nodes[1].time, 1.5 * *facts.nodes[1].time) << "the figure of two cores is that of eight";
}

TEST(CalibratedTimes, ExchangesSweepsAndHandOversHaveMeasuredFigures) {
  const Module module = prepare_training(make_module({.layers = 1}));
  KernelFacts facts = make_facts(module);
  facts.bytes_per_second = 1e9;
  const Machine machine = make_test_machine(2, 2);
  auto calibration = std::make_shared<Calibration>();
  calibration->all_gather = {1e-5, 2e9};
  calibration->copy = {3e-5, 4e9};
  calibration->hand_over = 7e-6;
  calibration->bandwidth = {1e9, 1.2e9};
  use_calibration(calibration, module, 2, facts);
  const CostModel cost(facts, machine);
  EXPECT_DOUBLE_EQ(cost.all_gather(2'000'000, 3), 2e-5 + 1e-3);
  EXPECT_DOUBLE_EQ(cost.copy(4'000'000), 3e-5 + 1e-3);
  EXPECT_DOUBLE_EQ(cost.hand_over(), 7e-6);
  EXPECT_DOUBLE_EQ(cost.reduce_scatter(1'000'000, 2), 7e-6 + 1e-3) << "a figure that was not measured";
  EXPECT_DOUBLE_EQ(facts.filling_workers, 1.2);
  EXPECT_DOUBLE_EQ(cost.sweep(600'000'000, 1), 1) << "two threads share 1.2 GB/s";
  EXPECT_DOUBLE_EQ(cost.streaming(600'000'000, 1), 0.6) << "the other thread does not stream";
}

}  // namespace
}  // namespace xrun::planner::testing
