// A fiber is the run of elements along one dimension of a sample. Each is gathered to contiguous f32 in scratch,
// processed in lanes, and scattered back, so that one loop serves every rank, layout and element type.
#pragma once

#include <vector>

#include "ops/loops/strides.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/simd/lane_math.h"

namespace xrun::ops {

// Iterates over the fibers of `full` along an axis. Each fiber belongs to one element of `reduced`; if `reduced` is
// null, as in functions that keep the shape, to its own first element in `full`.
class Fibers {
 public:
  Fibers(const TensorType& full, const TensorType* reduced, int64_t rows, int64_t axis_argument)
      : axis_(static_cast<size_t>(axis_argument < 0 ? axis_argument + full.rank() : axis_argument)) {
    std::vector<int64_t> dims = block_dims(full, rows);
    const std::vector<int64_t> strides = block_strides(full, rows);
    n_ = dims[axis_];
    stride_ = strides[axis_];
    std::vector<int64_t> beside = strides;
    if (reduced != nullptr) {
      beside = block_strides(*reduced, rows);
      if (beside.size() < dims.size()) {
        beside.insert(beside.begin() + static_cast<std::ptrdiff_t>(axis_), 0);
      }
    }
    dims[axis_] = 1;
    loop_ = StridedLoop<2>(dims, {strides, beside});
  }

  int64_t size() const { return n_; }
  int64_t stride() const { return stride_; }
  int64_t padded() const { return align_up(n_, kLanes); }

  // Calls body(offset of the fiber's first element, offset of the element of `reduced`) for each fiber.
  template <typename Body>
  void for_each(const Body& body) const {
    const auto& steps = loop_.inner_steps();
    loop_.for_each_run([&](const auto& at) {
      for (int64_t i = 0; i < loop_.inner_count(); ++i) {
        body(at[0] + i * steps[0], at[1] + i * steps[1]);
      }
    });
  }

 private:
  size_t axis_;
  int64_t n_ = 0;
  int64_t stride_ = 0;
  StridedLoop<2> loop_;
};

template <typename T>
XRUN_INLINE void gather(const T* from, int64_t stride, int64_t n, float* v) {
  for (int64_t i = 0; i < n; ++i) {
    v[i] = to_float(from[i * stride]);
  }
}

template <typename T>
XRUN_INLINE void scatter(const float* v, int64_t n, T* to, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) {
    assign(to[i * stride], v[i]);
  }
}

// The largest of v[0, n); NaN if one of them is NaN.
XRUN_INLINE float max_of(const float* v, int64_t n) {
  float best = v[0];
  for (int64_t i = 1; i < n; ++i) {
    best = (v[i] <= best || best != best) ? best : v[i];
  }
  return best;
}

// Makes a kernel that works on the fibers along the attribute `axis`. `run` gets the call, the fibers, and scratch for
// `runs` fibers in f32.
template <typename Run>
Result<std::unique_ptr<Kernel>> fiber_kernel(const KernelSpec& spec, const TensorType& full, const TensorType* reduced,
                                             int64_t runs, Run run) {
  const Fibers fibers(full, reduced, spec.rows, spec.attrs.integer("axis", -1));
  return kernel_of([fibers, run](const KernelCall& call) { run(call, fibers, reinterpret_cast<float*>(call.scratch)); },
                   runs * fibers.padded() * static_cast<Bytes>(sizeof(float)));
}

}  // namespace xrun::ops
