// Sixteen lanes of f32 as one value, and the choice of the instruction set for which a loop body is compiled. A loop
// over lanes gives the same bits for every instruction set, because lanes mix only in `sum_lanes`. Loop bodies are
// templates over the type of the lanes: F16 is one register of AVX-512, F8x2 is two registers of AVX2. They are
// different types because GCC keeps F16 in memory if no register can hold sixteen lanes, which makes loops several
// times slower.
#pragma once

#include <cstdint>
#include <cstring>
#include <immintrin.h>
#include <type_traits>

#include "ops/simd/isa.h"

namespace xrun::ops {

#define XRUN_INLINE [[gnu::always_inline]] inline
#define XRUN_AVX512 "arch=x86-64-v4,prefer-vector-width=512"  // for gnu::target

inline constexpr int kLanes = 16;

using F16 [[gnu::vector_size(64)]] = float;
using I16 [[gnu::vector_size(64)]] = int32_t;
using U16 [[gnu::vector_size(64)]] = uint32_t;
using H16 [[gnu::vector_size(32)]] = uint16_t;
using F8 [[gnu::vector_size(32)]] = float;
using I8 [[gnu::vector_size(32)]] = int32_t;
using U8 [[gnu::vector_size(32)]] = uint32_t;
using H8 [[gnu::vector_size(16)]] = uint16_t;

struct F8x2 {
  F8 low, high;
};
struct I8x2 {
  I8 low, high;
};

// A bf16 number: the upper half of an f32.
struct Bf16 {
  uint16_t bits;
};
// An f16 number (IEEE binary16). Its subnormal numbers are kept: the conversions of F16C ignore the modes that flush
// them.
struct Half {
  uint16_t bits;
};

// ---- arithmetic of F8x2, like that of F16
#define XRUN_LANES_OPERATOR(sign)                                                                   \
  XRUN_INLINE F8x2 operator sign(F8x2 a, F8x2 b) { return {a.low sign b.low, a.high sign b.high}; } \
  XRUN_INLINE F8x2 operator sign(F8x2 a, float b) { return {a.low sign b, a.high sign b}; }         \
  XRUN_INLINE F8x2 operator sign(float a, F8x2 b) { return {a sign b.low, a sign b.high}; }
XRUN_LANES_OPERATOR(+)
XRUN_LANES_OPERATOR(-)
XRUN_LANES_OPERATOR(*)
XRUN_LANES_OPERATOR(/)
#undef XRUN_LANES_OPERATOR
XRUN_INLINE F8x2 operator-(F8x2 a) { return {-a.low, -a.high}; }
XRUN_INLINE F8x2& operator+=(F8x2& a, F8x2 b) { return a = a + b; }

#define XRUN_LANES_OPERATOR(sign) \
  XRUN_INLINE I8x2 operator sign(I8x2 a, int32_t b) { return {a.low sign b, a.high sign b}; }
XRUN_LANES_OPERATOR(+)
XRUN_LANES_OPERATOR(-)
XRUN_LANES_OPERATOR(&)
XRUN_LANES_OPERATOR(|)
XRUN_LANES_OPERATOR(<<)
XRUN_LANES_OPERATOR(>>)
#undef XRUN_LANES_OPERATOR
XRUN_INLINE I8x2 operator-(I8x2 a, I8x2 b) { return {a.low - b.low, a.high - b.high}; }

// ---- other operations of F16 and F8x2
template <class L = F16>
XRUN_INLINE L broadcast(float x) {
  return L{} + x;
}
template <class L>
XRUN_INLINE L fill_like(L, float x) {
  return broadcast<L>(x);
}

// Returns `yes` in lanes in which the comparison of a and b holds, else `no`; `kWhat` is a predicate of _mm256_cmp_ps.
template <int kWhat>
XRUN_INLINE F8 choose(F8 a, F8 b, F8 yes, F8 no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, kWhat));
}
template <int kWhat>
XRUN_INLINE F8x2 choose(F8x2 a, F8x2 b, F8x2 yes, F8x2 no) {
  return {choose<kWhat>(a.low, b.low, yes.low, no.low), choose<kWhat>(a.high, b.high, yes.high, no.high)};
}
// Splits sixteen lanes into two halves. Shuffles are used because halves that go through memory wait for the stores.
XRUN_INLINE F8x2 halves_of(F16 x) {
  return {__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7),
          __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)};
}
XRUN_INLINE F16 joined(F8x2 x) {
  return __builtin_shufflevector(x.low, x.high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
// Like choose for F8x2. It works on halves, because GCC 12 splits `(a < b) ? yes : no` into single lanes if the same
// comparison occurs twice.
template <int kWhat>
XRUN_INLINE F16 choose(F16 a, F16 b, F16 yes, F16 no) {
  return joined(choose<kWhat>(halves_of(a), halves_of(b), halves_of(yes), halves_of(no)));
}

XRUN_INLINE F16 if_less(F16 a, F16 b, F16 yes, F16 no) { return (a < b) ? yes : no; }
XRUN_INLINE F16 if_number(F16 x, F16 yes, F16 no) { return (x == x) ? yes : no; }  // not NaN
XRUN_INLINE F16 if_bit(I16 x, int32_t bit, F16 yes, F16 no) { return ((x & bit) != 0) ? yes : no; }
XRUN_INLINE F8x2 if_less(F8x2 a, F8x2 b, F8x2 yes, F8x2 no) { return choose<_CMP_LT_OQ>(a, b, yes, no); }
XRUN_INLINE F8x2 if_number(F8x2 x, F8x2 yes, F8x2 no) { return choose<_CMP_EQ_OQ>(x, x, yes, no); }
XRUN_INLINE F8x2 if_bit(I8x2 x, int32_t bit, F8x2 yes, F8x2 no) {
  return {((x.low & bit) != 0) ? yes.low : no.low, ((x.high & bit) != 0) ? yes.high : no.high};
}

XRUN_INLINE I16 bits_of(F16 x) { return reinterpret_cast<I16>(x); }
XRUN_INLINE F16 from_bits(I16 bits) { return reinterpret_cast<F16>(bits); }
XRUN_INLINE F16 converted(I16 x) { return __builtin_convertvector(x, F16); }
XRUN_INLINE I8x2 bits_of(F8x2 x) { return {reinterpret_cast<I8>(x.low), reinterpret_cast<I8>(x.high)}; }
XRUN_INLINE F8x2 from_bits(I8x2 x) { return {reinterpret_cast<F8>(x.low), reinterpret_cast<F8>(x.high)}; }
XRUN_INLINE F8x2 converted(I8x2 x) { return {_mm256_cvtepi32_ps(__m256i(x.low)), _mm256_cvtepi32_ps(__m256i(x.high))}; }

// The correctly rounded square root. For F16 it works on halves, since compilers do not vectorise a scalar square root.
XRUN_INLINE F8x2 square_root(F8x2 x) { return {_mm256_sqrt_ps(x.low), _mm256_sqrt_ps(x.high)}; }
// The largest whole number that is not above x.
XRUN_INLINE F8x2 floor_lanes(F8x2 x) { return {_mm256_floor_ps(x.low), _mm256_floor_ps(x.high)}; }
XRUN_INLINE F16 square_root(F16 x) { return joined(square_root(halves_of(x))); }
XRUN_INLINE F16 floor_lanes(F16 x) { return joined(floor_lanes(halves_of(x))); }

// max(v, 0), and NaN if v is NaN.
template <class L>
XRUN_INLINE L rectify(L v) {
  return if_less(v, L{}, L{}, v);
}
template <class L>
XRUN_INLINE L max(L a, L b) {
  return if_less(b, a, a, b);
}
template <class L>
XRUN_INLINE L min(L a, L b) {
  return if_less(a, b, a, b);
}

// ---- memory
template <class L = F16>
XRUN_INLINE L load(const float* p) {
  if constexpr (std::is_same_v<L, F8x2>) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  } else {
    F16 v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
}

template <class L = F16>
XRUN_INLINE L load(const Bf16* p) {
  if constexpr (std::is_same_v<L, F8x2>) {
    const auto widened = [](const Bf16* from) __attribute__((always_inline)) {
      const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      return F8(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16)));
    };
    return {widened(p), widened(p + 8)};
  } else {
    H16 h;
    std::memcpy(&h, p, sizeof h);
    return reinterpret_cast<F16>(__builtin_convertvector(h, U16) << 16);
  }
}

XRUN_INLINE F8 widened(const Half* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
template <class L = F16>
XRUN_INLINE L load(const Half* p) {
  const F8x2 both{widened(p), widened(p + 8)};
  if constexpr (std::is_same_v<L, F8x2>) {
    return both;
  } else {
    return joined(both);
  }
}

// Returns the bits of the nearest bf16, ties to even. NaN stays NaN.
XRUN_INLINE U16 bf16_bits(F16 v) {
  const U16 u = reinterpret_cast<U16>(v);
  const U16 rounded = (u + 0x7FFFU + ((u >> 16) & 1U)) >> 16;
  const U16 quiet = (u >> 16) | 0x40U;
  return (v == v) ? rounded : quiet;
}
XRUN_INLINE U8 bf16_bits(F8 v) {
  const U8 u = reinterpret_cast<U8>(v);
  const U8 rounded = (u + 0x7FFFU + ((u >> 16) & 1U)) >> 16;
  const U8 quiet = (u >> 16) | 0x40U;
  return (v == v) ? rounded : quiet;
}
// Rounds to the nearest bf16, stored as f32.
XRUN_INLINE F16 rounded_to_bf16(F16 v) { return reinterpret_cast<F16>(bf16_bits(v) << 16); }
XRUN_INLINE F8x2 rounded_to_bf16(F8x2 v) {
  return {reinterpret_cast<F8>(bf16_bits(v.low) << 16), reinterpret_cast<F8>(bf16_bits(v.high) << 16)};
}

// Rounds to the nearest f16, ties to even, stored as f32; numbers beyond the range become infinite. NaN stays NaN.
XRUN_INLINE __m128i half_bits(F8 v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
XRUN_INLINE F8x2 rounded_to_f16(F8x2 v) {
  return {_mm256_cvtph_ps(half_bits(v.low)), _mm256_cvtph_ps(half_bits(v.high))};
}
XRUN_INLINE F16 rounded_to_f16(F16 v) { return joined(rounded_to_f16(halves_of(v))); }

XRUN_INLINE void store(float* p, F16 v) { std::memcpy(p, &v, sizeof v); }
XRUN_INLINE void store(float* p, F8x2 v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
XRUN_INLINE void store(Bf16* p, F16 v) {
  const H16 h = __builtin_convertvector(bf16_bits(v), H16);
  std::memcpy(p, &h, sizeof h);
}
XRUN_INLINE void store(Bf16* p, F8x2 v) {
  // Packing interleaves the quarters of both registers; the permutation restores their order.
  const __m256i both = _mm256_packus_epi32(__m256i(bf16_bits(v.low)), __m256i(bf16_bits(v.high)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(both, 0b11011000));
}

XRUN_INLINE void store(Half* p, F8x2 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), half_bits(v.low));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), half_bits(v.high));
}
XRUN_INLINE void store(Half* p, F16 v) { store(p, halves_of(v)); }

// Rounds sixteen numbers to the type T, stored as f32.
template <typename T, class L>
XRUN_INLINE L rounded_to(L v) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return rounded_to_bf16(v);
  } else if constexpr (std::is_same_v<T, Half>) {
    return rounded_to_f16(v);
  } else {
    return v;
  }
}

// Loads the first n < 16 elements, with zeros in the remaining lanes.
template <class L = F16, typename T>
XRUN_INLINE L load_some(const T* p, int64_t n) {
  T lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(T));
  return load<L>(lanes);
}

template <class L, typename T>
XRUN_INLINE void store_some(T* p, L v, int64_t n) {
  T lanes[kLanes];
  store(lanes, v);
  std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(T));
}

// Loads the first min(n, 16) elements, with zeros in the remaining lanes. REQUIRES: n > 0.
template <class L = F16, typename T>
XRUN_INLINE L load_upto(const T* p, int64_t n) {
  return n >= kLanes ? load<L>(p) : load_some<L>(p, n);
}
template <class L, typename T>
XRUN_INLINE void store_upto(T* p, L v, int64_t n) {
  if (n >= kLanes) {
    store(p, v);
  } else {
    store_some(p, v, n);
  }
}

// Adds all lanes in a fixed tree.
template <class L>
XRUN_INLINE float sum_lanes(L v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      lanes[i] += lanes[i + width];
    }
  }
  return lanes[0];
}

XRUN_INLINE float to_float(float x) { return x; }
XRUN_INLINE float to_float(Bf16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
XRUN_INLINE Bf16 to_bf16(float x) {
  uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  const uint32_t rounded = x == x ? (u + 0x7FFFU + ((u >> 16) & 1U)) >> 16 : (u >> 16) | 0x40U;
  return Bf16{static_cast<uint16_t>(rounded)};
}
XRUN_INLINE float to_float(Half x) { return _cvtsh_ss(x.bits); }
XRUN_INLINE Half to_f16(float x) { return Half{static_cast<uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT))}; }
XRUN_INLINE void assign(float& to, float x) { to = x; }
XRUN_INLINE void assign(Bf16& to, float x) { to = to_bf16(x); }
XRUN_INLINE void assign(Half& to, float x) { to = to_f16(x); }

// Multiplies n numbers by `scale` and converts them from `From` to `To`: y[i] = x[i] · scale. A body of run_for.
template <typename From, typename To>
struct ScaleBody {
  template <class L>
  XRUN_INLINE static void run(const From* x, float scale, To* y, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(y + i, load_upto<L>(x + i, n - i) * scale, n - i);
    }
  }
};

template <typename Body, typename... Args>
void run_avx2(Args... args) {
  Body::template run<F8x2>(args...);
}

template <typename Body, typename... Args>
[[gnu::target(XRUN_AVX512)]] void run_avx512(Args... args) {
  Body::template run<F16>(args...);
}

// Calls Body::run<L>(args...) in a copy that is compiled for `isa`, with the matching type of lanes L. Body::run must
// be an XRUN_INLINE function.
template <typename Body, typename... Args>
void run_for(Isa isa, Args... args) {
  if (isa >= Isa::kAvx512) {
    run_avx512<Body>(args...);
  } else {
    run_avx2<Body>(args...);
  }
}

}  // namespace xrun::ops
