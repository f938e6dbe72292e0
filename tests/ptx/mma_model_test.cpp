// The sums of tensor cores of three generations.
#include "tests/support/ptx/mma_model.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace xrun::ptx {
namespace {

float sum(Generation generation, const std::vector<float>& a, const std::vector<float>& b, float addend) {
  std::vector<Term> left;
  std::vector<Term> right;
  const auto bfloat = [](float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); };
  for (size_t i = 0; i < 16; ++i) {
    left.push_back(term_of_bfloat(bfloat(i < a.size() ? a[i] : 0.0F)));
    right.push_back(term_of_bfloat(bfloat(i < b.size() ? b[i] : 0.0F)));
  }
  return sum_of_products(tensor_core(generation), left, right, addend);
}

float h100(const std::vector<float>& a, const std::vector<float>& b, float addend) {
  return sum(Generation::kH100, a, b, addend);
}

TEST(TensorCores, SumsWithinTheBitsAreExact) {
  EXPECT_EQ(h100({1, 2, 3}, {4, 5, 6}, 7), 39.0F);
  EXPECT_EQ(h100({1, -1}, {1, 1}, 0), 0.0F);
  EXPECT_EQ(h100({}, {}, -0.0F), 0.0F);
  EXPECT_FALSE(std::signbit(h100({}, {}, -0.0F)));
}

// 1 + n ulps of 2^-25: the terms survive alignment to 1 on H100 (25 bits), not on A100 (24 bits).
TEST(TensorCores, GenerationsKeepDifferentBits) {
  const std::vector<float> a{1, 0x1p-25F, 0x1p-25F, 0x1p-25F, 0x1p-25F};
  const std::vector<float> b{1, 1, 1, 1, 1};
  EXPECT_EQ(sum(Generation::kH100, a, b, 0), 1 + 0x1p-23F);
  EXPECT_EQ(sum(Generation::kB200, a, b, 0), 1 + 0x1p-23F);
  EXPECT_EQ(sum(Generation::kA100, a, b, 0), 1.0F);
  // A100 adds the second eight products after it has truncated the first sum.
  const std::vector<float> ones(16, 1);
  std::vector<float> late(16, 0);
  late[0] = 1;
  late[1] = 0x1p-24F;
  late[8] = 0x1p-24F;
  EXPECT_EQ(sum(Generation::kH100, late, ones, 0), 1 + 0x1p-23F);
  EXPECT_EQ(sum(Generation::kA100, late, ones, 0), 1.0F);
}

TEST(TensorCores, ResultsAreTruncatedTowardsZero) {
  EXPECT_EQ(h100({1, 0x1.8p-24F}, {1, 1}, 0), 1.0F);
  EXPECT_EQ(h100({-1, -0x1.8p-24F}, {1, 1}, 0), -1.0F);
  EXPECT_EQ(h100({1, -0x1p-24F}, {1, 1}, 0), 1 - 0x1p-24F);
  EXPECT_EQ(h100({0x1p-120F}, {0x1p-29F}, 0), 0x1p-149F) << "subnormal numbers are kept";
  EXPECT_EQ(h100({0x1p-120F}, {0x1p-30F}, 0), 0.0F);
}

// Products of tf32 are summed in groups of 4 on A100 and of 8 on H100; products below 2^-133 are truncated at 2^-158.
TEST(TensorCores, WidthsAndSmallExponents) {
  EXPECT_EQ(tensor_core(Generation::kA100).terms, 8U);
  EXPECT_EQ(tensor_core(Generation::kA100, 4).terms, 4U);
  EXPECT_EQ(tensor_core(Generation::kB200, 4).terms, 8U);
  std::vector<Term> tiny(16, term_of_bfloat(0x0080));         // 2^-126
  const std::vector<Term> small(16, term_of_bfloat(0x3280));  // 2^-26
  EXPECT_EQ(sum_of_products(tensor_core(Generation::kH100), tiny, small, 0), 0x1p-148F);
  const std::vector<Term> smaller(16, term_of_bfloat(0x2f00));  // 2^-33, so that each product is 2^-159
  EXPECT_EQ(sum_of_products(tensor_core(Generation::kH100), tiny, smaller, 0), 0.0F);
}

TEST(TensorCores, HalvesAndTf32HaveTenBits) {
  const std::vector<Term> one{term_of_half(0x3c01), term_of_half(0), term_of_half(0), term_of_half(0)};
  EXPECT_EQ(sum_of_products(tensor_core(Generation::kA100), one, one, 0), 1 + 0x1p-9F + 0x1p-20F);
  const std::vector<Term> tf32{term_of_tf32(0x3f803fff), term_of_tf32(0), term_of_tf32(0), term_of_tf32(0)};
  EXPECT_EQ(sum_of_products(tensor_core(Generation::kA100, 4), tf32, tf32, 0), 1 + 0x1p-9F + 0x1p-20F);
  EXPECT_EQ(term_of_half(0x0001).significand, 1);
  EXPECT_EQ(term_of_half(0x0001).exponent, -14);
  EXPECT_EQ(term_of_half(0x7c00).kind, Term::Kind::kInfinite);
}

TEST(TensorCores, InfinitiesAndNans) {
  EXPECT_EQ(h100({INFINITY}, {2}, 1), INFINITY);
  EXPECT_EQ(h100({INFINITY}, {-2}, 1), -INFINITY);
  EXPECT_EQ(h100({0x1p127F}, {4}, 0), INFINITY);
  for (const float nan : {h100({INFINITY}, {0}, 1), h100({INFINITY}, {1}, -INFINITY), h100({NAN}, {1}, 1),
                          h100({1}, {1}, NAN), h100({INFINITY, -INFINITY}, {1, 1}, 0)}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(nan), 0x7fffffffU);
  }
}

}  // namespace
}  // namespace xrun::ptx
