#include "ops/simd/convert.h"

namespace xrun::ops {
namespace {

template <typename From, typename To>
struct CopyBody {
  template <class L>
  XRUN_INLINE static void run(const From* from, To* to, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(to + i, load_upto<L>(from + i, n - i), n - i);
    }
  }
};

template <typename T>
struct RoundBody {
  template <class L>
  XRUN_INLINE static void run(const float* from, float* to, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(to + i, rounded_to<T>(load_upto<L>(from + i, n - i)), n - i);
    }
  }
};

}  // namespace

void widen(Isa isa, const Bf16* from, float* to, int64_t n) { run_for<CopyBody<Bf16, float>>(isa, from, to, n); }
void narrow(Isa isa, const float* from, Bf16* to, int64_t n) { run_for<CopyBody<float, Bf16>>(isa, from, to, n); }
void widen(Isa isa, const Half* from, float* to, int64_t n) { run_for<CopyBody<Half, float>>(isa, from, to, n); }
void narrow(Isa isa, const float* from, Half* to, int64_t n) { run_for<CopyBody<float, Half>>(isa, from, to, n); }

void convert(Isa isa, DType from_type, const void* from, DType to_type, void* to, int64_t n) {
  const auto to_each = [&](auto number) {
    const auto* const x = static_cast<const decltype(number)*>(from);
    if (to_type == DType::kF16) {
      run_for<CopyBody<decltype(number), Half>>(isa, x, static_cast<Half*>(to), n);
    } else if (to_type == DType::kBF16) {
      run_for<CopyBody<decltype(number), Bf16>>(isa, x, static_cast<Bf16*>(to), n);
    } else {
      run_for<CopyBody<decltype(number), float>>(isa, x, static_cast<float*>(to), n);
    }
  };
  from_type == DType::kF16 ? to_each(Half()) : from_type == DType::kBF16 ? to_each(Bf16()) : to_each(0.0F);
}

void round_to(Isa isa, DType type, const float* from, float* to, int64_t n) {
  type == DType::kF16 ? run_for<RoundBody<Half>>(isa, from, to, n) : run_for<RoundBody<Bf16>>(isa, from, to, n);
}

}  // namespace xrun::ops
