#include "runtime/bench/calibration/measured_rates.h"

#include <gtest/gtest.h>

namespace xrun::runtime {
namespace {

TEST(MeasuredRates, AnExchangeHasAStartAndARate) {
  const ExchangeTime fit = exchange_time(1e4, 5e-6 + 1e4 / 2e9, 1e8, 5e-6 + 1e8 / 2e9);
  EXPECT_NEAR(fit.start, 5e-6, 1e-10);
  EXPECT_NEAR(fit.rate, 2e9, 1);
}

TEST(MeasuredRates, TimesThatDoNotGrowGiveTheRateOfTheLargerExchange) {
  const ExchangeTime fit = exchange_time(1e4, 3e-3, 1e8, 2e-3);
  EXPECT_DOUBLE_EQ(fit.rate, 1e8 / 2e-3);
  EXPECT_GE(fit.start, 0);
}

TEST(MeasuredRates, AllFiguresOfThisMachineAreInTheirRanges) {
  Host host = detect_host();
  host.l3_cache = 0;  // small arrays suffice here
  Calibration calibration;
  const auto spreads = measure_rates(host, ops::choose_isa().value(), 1, {}, calibration);
  ASSERT_TRUE(spreads.ok()) << spreads.error().message;
  EXPECT_EQ(calibration.bandwidth.size(), static_cast<size_t>(std::min(host.cores, 64)));
  EXPECT_EQ(calibration.slow_down.size(), calibration.bandwidth.size());
  EXPECT_DOUBLE_EQ(calibration.slow_down[0], 1);
  for (const double rate : {calibration.bandwidth[0], calibration.copy.rate, calibration.all_gather.rate,
                            calibration.reduce_scatter.rate}) {
    EXPECT_GT(rate, 1e7);
    EXPECT_LT(rate, 1e13);
  }
  EXPECT_GT(*calibration.hand_over, 0);
  EXPECT_LT(*calibration.hand_over, 0.1);
  EXPECT_GT(calibration.decode, 1e-11);
  EXPECT_LT(calibration.decode, 1e-6);
  for (const Spread& one : *spreads) {
    EXPECT_GE(one.spread, 0) << one.what;
    EXPECT_GT(one.median, 0) << one.what;
  }
}

}  // namespace
}  // namespace xrun::runtime
