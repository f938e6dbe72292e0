// Sixteen lanes of f32 as one value, and the choice of the instruction set that a loop body is compiled for. A loop
// over lanes gives the same bits for every instruction set, since lanes never mix but by `sum_lanes`.
#pragma once

#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "ops/isa.h"

namespace xrun::ops {

#define XRUN_INLINE [[gnu::always_inline]] inline
#define XRUN_AVX512 "arch=x86-64-v4,prefer-vector-width=512"  // for gnu::target

inline constexpr int kLanes = 16;

using F16 [[gnu::vector_size(64)]] = float;
using I16 [[gnu::vector_size(64)]] = int32_t;
using U16 [[gnu::vector_size(64)]] = uint32_t;
using H16 [[gnu::vector_size(32)]] = uint16_t;

// A bf16 number: the upper half of an f32.
struct Bf16 {
  uint16_t bits;
};

XRUN_INLINE F16 broadcast(float x) { return F16{} + x; }

XRUN_INLINE F16 load(const float* p) {
  F16 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

XRUN_INLINE F16 load(const Bf16* p) {
  H16 h;
  std::memcpy(&h, p, sizeof h);
  return reinterpret_cast<F16>(__builtin_convertvector(h, U16) << 16);
}

// The nearest bf16, ties to even, as f32; NaN stays NaN.
XRUN_INLINE U16 bf16_bits(F16 v) {
  const U16 u = reinterpret_cast<U16>(v);
  const U16 rounded = (u + 0x7FFFU + ((u >> 16) & 1U)) >> 16;
  const U16 quiet = (u >> 16) | 0x40U;
  return (v == v) ? rounded : quiet;
}

XRUN_INLINE void store(float* p, F16 v) { std::memcpy(p, &v, sizeof v); }

XRUN_INLINE void store(Bf16* p, F16 v) {
  const H16 h = __builtin_convertvector(bf16_bits(v), H16);
  std::memcpy(p, &h, sizeof h);
}

// The first n < 16 elements, zeros above.
template <typename T>
XRUN_INLINE F16 load_some(const T* p, int64_t n) {
  T lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(T));
  return load(lanes);
}

template <typename T>
XRUN_INLINE void store_some(T* p, F16 v, int64_t n) {
  T lanes[kLanes];
  store(lanes, v);
  std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(T));
}

// The first min(n, 16) elements, zeros above. REQUIRES: n > 0.
template <typename T>
XRUN_INLINE F16 load_upto(const T* p, int64_t n) {
  return n >= kLanes ? load(p) : load_some(p, n);
}
template <typename T>
XRUN_INLINE void store_upto(T* p, F16 v, int64_t n) {
  if (n >= kLanes) {
    store(p, v);
  } else {
    store_some(p, v, n);
  }
}

// y[i] = x[i] scale for n elements of any two types: a body of run_for.
template <typename From, typename To>
struct ScaleBody {
  XRUN_INLINE static void run(const From* x, float scale, To* y, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(y + i, load_upto(x + i, n - i) * scale, n - i);
    }
  }
};

// Gives `yes` where the comparison of a and b holds, else `no`; `kWhat` is a predicate of _mm256_cmp_ps. Needed where a
// comparison is used more than once: GCC 12 splits the plain form `(a < b) ? yes : no` into single lanes if the same
// comparison occurs twice. Works on halves, as square_root does.
template <int kWhat>
XRUN_INLINE F16 choose(F16 a, F16 b, F16 yes, F16 no) {
  __m256 x[2];
  __m256 y[2];
  __m256 t[2];
  __m256 f[2];
  std::memcpy(x, &a, sizeof a);
  std::memcpy(y, &b, sizeof b);
  std::memcpy(t, &yes, sizeof yes);
  std::memcpy(f, &no, sizeof no);
  f[0] = _mm256_blendv_ps(f[0], t[0], _mm256_cmp_ps(x[0], y[0], kWhat));
  f[1] = _mm256_blendv_ps(f[1], t[1], _mm256_cmp_ps(x[1], y[1], kWhat));
  std::memcpy(&no, f, sizeof f);
  return no;
}

// ---- what elementary functions are written with (lane_math.h), beside + - * /, unary - and `choose`
XRUN_INLINE F16 fill_like(F16, float x) { return broadcast(x); }
XRUN_INLINE F16 if_less(F16 a, F16 b, F16 yes, F16 no) { return (a < b) ? yes : no; }
XRUN_INLINE F16 if_number(F16 x, F16 yes, F16 no) { return (x == x) ? yes : no; }  // not NaN
XRUN_INLINE I16 bits_of(F16 x) { return reinterpret_cast<I16>(x); }
XRUN_INLINE F16 from_bits(I16 bits) { return reinterpret_cast<F16>(bits); }
XRUN_INLINE F16 converted(I16 x) { return __builtin_convertvector(x, F16); }
XRUN_INLINE F16 if_bit(I16 x, int32_t bit, F16 yes, F16 no) { return ((x & bit) != 0) ? yes : no; }

// max(v, 0), and NaN where v is NaN.
XRUN_INLINE F16 rectify(F16 v) { return (v < F16{}) ? F16{} : v; }
XRUN_INLINE F16 max(F16 a, F16 b) { return (a > b) ? a : b; }
XRUN_INLINE F16 min(F16 a, F16 b) { return (a < b) ? a : b; }

// Correctly rounded. Works on halves, since compilers do not vectorise a scalar square root and AVX2 is always there.
XRUN_INLINE F16 square_root(F16 v) {
  __m256 halves[2];
  std::memcpy(halves, &v, sizeof v);
  halves[0] = _mm256_sqrt_ps(halves[0]);
  halves[1] = _mm256_sqrt_ps(halves[1]);
  std::memcpy(&v, halves, sizeof v);
  return v;
}

// The largest whole number that is not above x.
XRUN_INLINE F16 floor_lanes(F16 x) {
  __m256 halves[2];
  std::memcpy(halves, &x, sizeof x);
  halves[0] = _mm256_floor_ps(halves[0]);
  halves[1] = _mm256_floor_ps(halves[1]);
  std::memcpy(&x, halves, sizeof x);
  return x;
}

// A fixed tree over the lanes.
XRUN_INLINE float sum_lanes(F16 v) {
  float lanes[kLanes];
  std::memcpy(lanes, &v, sizeof v);
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
XRUN_INLINE void assign(float& to, float x) { to = x; }
XRUN_INLINE void assign(Bf16& to, float x) { to = to_bf16(x); }

template <typename Body, typename... Args>
void run_avx2(Args... args) {
  Body::run(args...);
}

template <typename Body, typename... Args>
[[gnu::target(XRUN_AVX512)]] void run_avx512(Args... args) {
  Body::run(args...);
}

// Runs Body::run(args...), an XRUN_INLINE function, as compiled for `isa`.
template <typename Body, typename... Args>
void run_for(Isa isa, Args... args) {
  if (isa >= Isa::kAvx512) {
    run_avx512<Body>(args...);
  } else {
    run_avx2<Body>(args...);
  }
}

}  // namespace xrun::ops
