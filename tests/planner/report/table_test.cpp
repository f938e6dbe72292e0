// When reports wrap lines, a number and its unit stay on one line.
#include "planner/report/table.h"

#include <gtest/gtest.h>

namespace xrun::planner {
namespace {

TEST(Wrapped, ANumberAndItsUnitStandOnOneLine) {
  EXPECT_EQ(wrapped("the devices idle 47.2 %: fill", 0, 21), "the devices idle\n47.2 %: fill");
  EXPECT_EQ(wrapped("a step takes 63.4 ms here", 0, 17), "a step takes\n63.4 ms here");
  EXPECT_EQ(wrapped("reads 12 345 678 samples/s", 0, 15), "reads\n12 345 678 samples/s");
  EXPECT_EQ(wrapped("stage 3 waits", 0, 8), "stage 3\nwaits");
}

}  // namespace
}  // namespace xrun::planner
