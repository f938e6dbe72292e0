#include "ops/loops/columns.h"

namespace xrun::ops {
namespace {

template <typename T>
struct SumBody {
  template <class L>
  XRUN_INLINE static void run(const T* x, int64_t rows, int64_t columns, Range some, float* sums) {
    reduce_columns<L, 1>(
        rows, some.begin, some.end,
        [&](int64_t r, int64_t c, int64_t n, L * acc)
            __attribute__((always_inline)) { acc[0] += load_upto<L>(x + r * columns + c, n); },
        [&](int64_t c, int64_t n, const double(*totals)[kLanes]) __attribute__((always_inline)) {
          for (int64_t i = 0; i < n; ++i) {
            sums[c + i] += static_cast<float>(totals[0][i]);
          }
        });
  }
};

}  // namespace

void add_column_sums(Isa isa, const float* x, int64_t rows, int64_t columns, float* sums) {
  run_for<SumBody<float>>(isa, x, rows, columns, Range{0, columns}, sums);
}

void add_column_sums(Isa isa, const Bf16* x, int64_t rows, int64_t columns, float* sums) {
  run_for<SumBody<Bf16>>(isa, x, rows, columns, Range{0, columns}, sums);
}
void add_column_sums(Isa isa, const Half* x, int64_t rows, int64_t columns, float* sums) {
  run_for<SumBody<Half>>(isa, x, rows, columns, Range{0, columns}, sums);
}

void add_column_sums(Isa isa, const float* x, int64_t rows, int64_t columns, Range some, float* sums) {
  run_for<SumBody<float>>(isa, x, rows, columns, some, sums);
}

void add_column_sums(Isa isa, const Bf16* x, int64_t rows, int64_t columns, Range some, float* sums) {
  run_for<SumBody<Bf16>>(isa, x, rows, columns, some, sums);
}
void add_column_sums(Isa isa, const Half* x, int64_t rows, int64_t columns, Range some, float* sums) {
  run_for<SumBody<Half>>(isa, x, rows, columns, some, sums);
}

}  // namespace xrun::ops
