// Sums of squares in f64 for norms of gradients and of weights, in the order of the processor
// (ops/simd/square_sums.h): sixteen running sums for each part of a tensor, added in a tree. One warp has two parts.
// `decide_update` adds the parts of all tensors in ascending order (docs/internals/determinism.md, "Scalars").
#include "ops/gpu/row_sums.h"

using namespace xrun::ops;

// sums[p] = sum of the squares of g[p * part .. (p + 1) * part), as many as there are of n elements.
extern "C" __global__ void square_sums_f32(const float* g, double* sums, int64_t n, int64_t part) {
  const RowThread at = RowThread::here();
  const int64_t begin = at.row * part;
  const int64_t end = begin + part < n ? begin + part : n;
  double running = 0;
  for (int64_t i = begin + at.lane; i < end; i += kLanes) {
    const auto x = static_cast<double>(g[i]);
    running += x * x;
  }
  const double sum = sum_of_row(running);
  if (at.lane == 0 && begin < n) {
    sums[at.row] = sum;
  }
}
