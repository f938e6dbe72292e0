// Sums of squares in f64 for norms of gradients and of weights, in the order of the processor
// (ops/simd/square_sums.h): sixteen running sums for each part of a tensor, added in a tree. One warp has two parts.
// The parts of all tensors are then folded by one thread in ascending order (docs/internals/determinism.md, "Scalars").
#include "ops/gpu/row_sums.h"
#include "ops/optimizer/update_scalars.h"

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

// Sets the scale of gradients for `clip = norm`: limit / norm if the norm exceeds the limit, over the scale of the
// loss, a power of two. A sum that is not finite sets bit 0 of `flags` instead. One thread.
extern "C" __global__ void clip_by_norm(const double* sums, int64_t count, double loss_scale, double limit,
                                        float* grad_scale, uint32_t* flags) {
  if (thread_index() != 0) {
    return;
  }
  const double factor = 1 / (loss_scale * loss_scale);
  double total = 0;
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    total += sums[i] * factor;
    finite = finite && sums[i] - sums[i] == 0;
  }
  const double norm = __dsqrt_rn(total);
  if (!finite) {
    *flags |= 1U;
  } else {
    *grad_scale = static_cast<float>(norm > limit ? limit / norm / loss_scale : 1 / loss_scale);
  }
}
