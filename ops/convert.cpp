#include "ops/convert.h"

namespace xrun::ops {
namespace {

template <typename From, typename To>
struct CopyBody {
  XRUN_INLINE static void run(const From* from, To* to, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(to + i, load_upto(from + i, n - i), n - i);
    }
  }
};

struct RoundBody {
  XRUN_INLINE static void run(const float* from, float* to, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      const U16 bits = bf16_bits(load_upto(from + i, n - i)) << 16;
      store_upto(to + i, reinterpret_cast<F16>(bits), n - i);
    }
  }
};

}  // namespace

void widen(Isa isa, const Bf16* from, float* to, int64_t n) { run_for<CopyBody<Bf16, float>>(isa, from, to, n); }
void narrow(Isa isa, const float* from, Bf16* to, int64_t n) { run_for<CopyBody<float, Bf16>>(isa, from, to, n); }
void round_to_bf16(Isa isa, const float* from, float* to, int64_t n) { run_for<RoundBody>(isa, from, to, n); }

}  // namespace xrun::ops
