// Counted nouns are singular or plural according to their number.
#include "graph/base/counted.h"

#include <gtest/gtest.h>

namespace xrun {
namespace {

TEST(CountedNouns, ANounAgreesWithItsNumber) {
  EXPECT_EQ(counted(1, "image"), "1 image");
  EXPECT_EQ(counted(0, "image"), "0 images");
  EXPECT_EQ(counted(2, "class"), "2 classes");
  EXPECT_EQ(counted(1, "class"), "1 class");
  EXPECT_EQ(counted(2, "batch"), "2 batches");
  EXPECT_EQ(counted(12345, "sample"), "12 345 samples");
  EXPECT_EQ(counted_of(1, 1, "sample"), "1 of 1 sample");
  EXPECT_EQ(counted_of(3, 200, "sample"), "3 of 200 samples");
}

}  // namespace
}  // namespace xrun
