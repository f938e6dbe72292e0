// The lines in which benchmarks compare their figures with the machine's own rates, on an idle machine and on a loaded
// one.
#include "runtime/bench/command/machine_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xrun::cli {
namespace {

using ::testing::HasSubstr;

TEST(BenchShare, IsNotReportedIfOtherProgramsUseTheProcessors) {
  const std::string rates = "460.0 GFLOP/s";
  EXPECT_EQ(share_text({.share = 0.42, .processor_share = 0.43}, rates),
            "42 % of 460.0 GFLOP/s, by processor time 43 %");
  EXPECT_EQ(share_text({.share = 1.01, .processor_share = 1}, rates),
            "101 % of 460.0 GFLOP/s, by processor time 100 %");
  // The machine's rates were measured while other programs used the processors.
  const MachineShare starved{.share = 0.8, .processor_share = 0.43, .processors = 0.4};
  EXPECT_EQ(share_text(starved, rates), "not known, since other programs used the processors; by processor time 43 %");
  EXPECT_THAT(loaded_note(starved), HasSubstr("the workers got 40 % of their processors"));
  // A share above 100 % is impossible, whatever the load of the processors is.
  const MachineShare beyond{.share = 3.17, .processor_share = 0.42, .processors = 0.97};
  EXPECT_EQ(share_text(beyond, rates), "not known, since other programs used the processors; by processor time 42 %");
  EXPECT_THAT(loaded_note(beyond), HasSubstr("the measured share of the machine's rates is 317 %"));
  EXPECT_EQ(share_text({.share = 3.17, .processor_share = 1.4, .processors = 0.97}, rates),
            "not known, since other programs used the processors");
}

TEST(BenchShare, CountsNoMoreThreadsThanThereAreCores) {
  EXPECT_EQ(processors_of({.wall = 2, .processor = 2}, 1, 8), 1);
  EXPECT_EQ(processors_of({.wall = 2, .processor = 1}, 1, 8), 0.5);
  EXPECT_EQ(processors_of({.wall = 2, .processor = 4}, 8, 2), 1);
  EXPECT_EQ(processors_of({.wall = 2, .processor = 4.01}, 2, 2), 1) << "clocks are read one after the other";
  EXPECT_EQ(processors_of({.wall = 0, .processor = 0}, 2, 2), 1);
}

}  // namespace
}  // namespace xrun::cli
