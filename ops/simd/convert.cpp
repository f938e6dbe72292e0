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

struct RoundBody {
  template <class L>
  XRUN_INLINE static void run(const float* from, float* to, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(to + i, rounded_to_bf16(load_upto<L>(from + i, n - i)), n - i);
    }
  }
};

}  // namespace

void widen(Isa isa, const Bf16* from, float* to, int64_t n) { run_for<CopyBody<Bf16, float>>(isa, from, to, n); }
void narrow(Isa isa, const float* from, Bf16* to, int64_t n) { run_for<CopyBody<float, Bf16>>(isa, from, to, n); }
void round_to_bf16(Isa isa, const float* from, float* to, int64_t n) { run_for<RoundBody>(isa, from, to, n); }

}  // namespace xrun::ops
