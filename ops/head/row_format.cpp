#include "ops/head/row_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/simd.h"

namespace xrun::ops {
namespace {

// Elements whose random bits are drawn at once: sixteen of each.
constexpr int64_t kRun = 256;

// The format e4m3 has no infinities: 448 is the largest number, 0x7F is NaN.
constexpr float kLargestFp8 = 448;
constexpr float kSmallestNormalFp8 = 0x1p-6F;
constexpr uint32_t kFp8Bias = (127 - 7) << 3;  // between the exponents, at the place of e4m3's

using B16 [[gnu::vector_size(16)]] = uint8_t;

F16 from_fp8(const std::byte* p) {
  B16 bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  const U16 code = __builtin_convertvector(bytes, U16);
  const U16 magnitude = code & 0x7FU;
  const F16 normal = reinterpret_cast<F16>((magnitude + kFp8Bias) << 20);
  const F16 subnormal = __builtin_convertvector(reinterpret_cast<I16>(magnitude), F16) * 0x1p-9F;
  const F16 value = (magnitude < 8U) ? subnormal : normal;
  return reinterpret_cast<F16>(reinterpret_cast<U16>(value) | ((code & 0x80U) << 24));
}

// `draws`: sixteen random bits. |v| <= kLargestFp8.
B16 to_fp8(F16 v, U16 draws) {
  const U16 bits = reinterpret_cast<U16>(v);
  const U16 magnitude = bits & 0x7FFFFFFFU;
  const F16 size = reinterpret_cast<F16>(magnitude);
  const U16 normal = ((magnitude + (draws << 4)) >> 20) - kFp8Bias;
  const F16 places = size * 0x1p9F + __builtin_convertvector(reinterpret_cast<I16>(draws), F16) * 0x1p-16F;
  const U16 subnormal = reinterpret_cast<U16>(__builtin_convertvector(places, I16));
  const U16 code = (size < broadcast(kSmallestNormalFp8)) ? subnormal : normal;
  return __builtin_convertvector(code | ((bits >> 24) & 0x80U), B16);
}

H16 to_bf16_bits(F16 v, U16 draws) {
  const U16 bits = reinterpret_cast<U16>(v);
  const U16 quiet = (bits >> 16) | 0x40U;
  return __builtin_convertvector((v == v) ? (bits + draws) >> 16 : quiet, H16);
}

// The power of two by which values up to `largest` fit; its inverse is a number, too.
float scale_of(float largest) {
  if (!(largest <= std::numeric_limits<float>::max())) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  int exponent = 0;
  const float part = std::frexp(largest / kLargestFp8, &exponent);  // in [1/2, 1), or 0
  return std::ldexp(1.0F, std::max(part == 0.5F ? exponent - 1 : exponent, -100));
}

float largest_of(const float* values, int64_t n) {
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float size = std::abs(values[i]);
    largest = size <= largest ? largest : size;  // keeps a NaN
    if (size != size) {
      return size;
    }
  }
  return largest;
}

// body(first, count, draws of elements first .. first + 15) for sixteen elements at a time.
template <typename Body>
void for_draws(const RandomStream& random, int64_t n, const Body& body) {
  for (int64_t begin = 0; begin < n; begin += kRun) {
    uint32_t words[kRun / 2];
    const int64_t count = std::min(kRun, n - begin);
    random.fill(static_cast<uint64_t>(begin / 8), {words, static_cast<size_t>((count + 15) / 16 * 8)});
    for (int64_t i = 0; i < count; i += kLanes) {
      H16 halves;
      std::memcpy(&halves, words + i / 2, sizeof halves);
      body(begin + i, std::min<int64_t>(kLanes, count - i), __builtin_convertvector(halves, U16));
    }
  }
}

}  // namespace

void load_row(RowFormat format, const std::byte* row, float scale, int64_t n, float* out) {
  if (format == RowFormat::kF32) {
    std::memcpy(out, row, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  if (format == RowFormat::kBf16) {
    const auto* from = reinterpret_cast<const Bf16*>(row);
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(out + i, load_upto(from + i, n - i), n - i);
    }
    return;
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    std::byte codes[kLanes] = {};
    std::copy_n(row + i, std::min<int64_t>(kLanes, n - i), codes);
    store_upto(out + i, from_fp8(codes) * scale, n - i);
  }
}

float store_row(RowFormat format, const float* values, int64_t n, const RandomStream& random, std::byte* row) {
  if (format == RowFormat::kF32) {
    std::memcpy(row, values, static_cast<size_t>(n) * sizeof(float));
    return 1;
  }
  if (format == RowFormat::kBf16) {
    for_draws(random, n, [&](int64_t first, int64_t count, U16 draws) {
      const H16 bits = to_bf16_bits(load_upto(values + first, count), draws);
      std::memcpy(row + first * 2, &bits, static_cast<size_t>(count) * 2);
    });
    return 1;
  }
  const float scale = scale_of(largest_of(values, n));
  const float inverse = scale == scale ? 1 / scale : 0;
  for_draws(random, n, [&](int64_t first, int64_t count, U16 draws) {
    const B16 codes = to_fp8(load_upto(values + first, count) * inverse, draws);
    std::memcpy(row + first, &codes, static_cast<size_t>(count));
  });
  return scale;
}

}  // namespace xrun::ops
