// Tests: tests/ptx/mma_model_test.cpp
#include "tests/support/ptx/mma_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace xrun::ptx {

namespace {

constexpr uint32_t kNan = 0x7fffffff;
constexpr int kLeastExponent = -133;  // sums are aligned to at least this exponent
constexpr int kPoint = 10;            // bits of Term::significand after the binary point

// A number of `fraction_bits` and `exponent_bits`; `point` is the number of bits after the point of the significand.
Term term_of(uint32_t bits, int exponent_bits, int fraction_bits, int point) {
  const uint32_t fraction = bits & ((1U << fraction_bits) - 1);
  const uint32_t last = (1U << exponent_bits) - 1;
  const uint32_t exponent = bits >> fraction_bits & last;
  const bool negative = (bits >> (exponent_bits + fraction_bits) & 1) != 0;
  Term term;
  if (exponent == last) {
    term.kind = fraction == 0 ? Term::Kind::kInfinite : Term::Kind::kNan;
    term.significand = negative ? -1 : 1;
    return term;
  }
  const auto magnitude =
      static_cast<int32_t>((exponent == 0 ? fraction : fraction | 1U << fraction_bits) << (point - fraction_bits));
  term.significand = negative ? -magnitude : magnitude;
  term.exponent = std::max(static_cast<int32_t>(exponent), 1) - static_cast<int32_t>(last >> 1);
  return term;
}

// The sum if at least one number is an infinity or NaN.
float special_sum(std::span<const Term> a, std::span<const Term> b, const Term& addend) {
  bool plus = addend.kind == Term::Kind::kInfinite && addend.significand > 0;
  bool minus = addend.kind == Term::Kind::kInfinite && addend.significand < 0;
  bool nan = addend.kind == Term::Kind::kNan;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].kind == Term::Kind::kFinite && b[i].kind == Term::Kind::kFinite) {
      continue;
    }
    nan = nan || a[i].kind == Term::Kind::kNan || b[i].kind == Term::Kind::kNan || a[i].significand == 0 ||
          b[i].significand == 0;
    ((a[i].significand < 0) == (b[i].significand < 0) ? plus : minus) = true;
  }
  if (nan || (plus && minus)) {
    return std::bit_cast<float>(kNan);
  }
  return plus ? HUGE_VALF : -HUGE_VALF;
}

// sum * 2^exponent, cut off to 24 bits, or to fewer below the normal numbers.
float cut_off(int64_t sum, int exponent) {
  const uint64_t magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  if (magnitude == 0) {
    return 0.0F;
  }
  const int width = static_cast<int>(std::bit_width(magnitude));
  const int lowest = std::max(exponent + width - 24, -149);  // exponent of the last bit that is kept
  const int shift = lowest - exponent;
  const uint64_t kept = shift <= 0 ? magnitude << -shift : shift < 64 ? magnitude >> shift : 0;
  const float result = std::ldexp(static_cast<float>(kept), lowest);  // exact, or an infinity
  return sum < 0 ? -result : result;
}

float sum_of_group(const TensorCore& core, std::span<const Term> a, std::span<const Term> b, float addend) {
  const Term c = term_of(std::bit_cast<uint32_t>(addend), 8, 23, 23);
  std::array<int32_t, 16> products;
  std::array<int32_t, 16> exponents;
  int largest = c.significand != 0 ? std::max(c.exponent, kLeastExponent) : kLeastExponent;
  bool special = c.kind != Term::Kind::kFinite;
  for (size_t i = 0; i < a.size(); ++i) {
    products[i] = a[i].significand * b[i].significand;
    exponents[i] = products[i] != 0 ? a[i].exponent + b[i].exponent : kLeastExponent;
    largest = std::max(largest, exponents[i]);
    special = special || a[i].kind != Term::Kind::kFinite || b[i].kind != Term::Kind::kFinite;
  }
  if (special) {
    return special_sum(a, b, c);
  }
  // The unit is 2^(largest - fraction_bits); a product has 20 bits after the point, the addend 23.
  const auto aligned = [&](int32_t value, int exponent, int point) {
    const int64_t magnitude = static_cast<int64_t>(std::abs(value)) << (core.fraction_bits - point);
    const int64_t cut = magnitude >> std::min(largest - exponent, 62);
    return value < 0 ? -cut : cut;
  };
  int64_t sum = aligned(c.significand, c.significand != 0 ? c.exponent : largest, 23);
  for (size_t i = 0; i < a.size(); ++i) {
    sum += aligned(products[i], products[i] != 0 ? exponents[i] : largest, 2 * kPoint);
  }
  return cut_off(sum, largest - core.fraction_bits);
}

}  // namespace

TensorCore tensor_core(Generation generation, size_t bytes) {
  return generation == Generation::kA100 ? TensorCore{16 / bytes, 24} : TensorCore{32 / bytes, 25};
}

Term term_of_bfloat(uint16_t bits) { return term_of(bits, 8, 7, kPoint); }
Term term_of_half(uint16_t bits) { return term_of(bits, 5, 10, kPoint); }
Term term_of_tf32(uint32_t bits) { return term_of(bits >> 13, 8, 10, kPoint); }

float sum_of_products(const TensorCore& core, std::span<const Term> a, std::span<const Term> b, float addend) {
  for (size_t first = 0; first < a.size(); first += core.terms) {
    const size_t count = std::min(core.terms, a.size() - first);
    addend = sum_of_group(core, a.subspan(first, count), b.subspan(first, count), addend);
  }
  return addend;
}

}  // namespace xrun::ptx
