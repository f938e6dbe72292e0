// Loops over several tensors at once, each with its own strides, for kernels that work on any number of dimensions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "graph/base/check.h"
#include "graph/limits.h"
#include "graph/types/tensor_type.h"

namespace xrun::ops {

// Return the dimensions of a row block in logical order, with `rows` as the batch, and the strides of these dimensions
// in memory, in elements, according to the layout.
std::vector<int64_t> block_dims(const TensorType& type, int64_t rows);
std::vector<int64_t> block_strides(const TensorType& type, int64_t rows);
std::vector<int64_t> row_major(const std::vector<int64_t>& dims);  // the strides of `dims`
// Returns the strides of `type` for a loop over `dims`: 0 in dimensions in which `type` has size 1 and `dims` has more.
std::vector<int64_t> broadcast_strides(const TensorType& type, const std::vector<int64_t>& dims, int64_t rows);

// A loop over K operands with common dimensions, in the memory order of operand 0. Neighbouring dimensions that are
// contiguous in all operands are merged, so operands of equal shape need only a single loop.
template <int K>
class StridedLoop {
 public:
  using Offsets = std::array<int64_t, K>;

  StridedLoop() = default;
  StridedLoop(const std::vector<int64_t>& dims, const std::array<std::vector<int64_t>, K>& strides) {
    std::vector<size_t> order(dims.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[0][a] > strides[0][b]; });
    for (const size_t d : order) {
      if (dims[d] == 1) {
        continue;
      }
      Offsets step;
      for (size_t k = 0; k < K; ++k) {
        step[k] = strides[k][d];
      }
      if (!dims_.empty() && merges(steps_.back(), step, dims[d])) {
        dims_.back() *= dims[d];
        steps_.back() = step;
      } else {
        dims_.push_back(dims[d]);
        steps_.push_back(step);
      }
    }
    if (dims_.empty()) {
      dims_.push_back(1);
      steps_.push_back(Offsets{});
    }
    XRUN_CHECK(dims_.size() <= kMostDims, "a loop over more dimensions than a tensor has");
  }

  bool is_one_run() const { return dims_.size() == 1; }
  const std::vector<int64_t>& dims() const { return dims_; }  // after merging, the innermost last
  const std::vector<Offsets>& steps() const { return steps_; }
  int64_t inner_count() const { return dims_.back(); }
  const Offsets& inner_steps() const { return steps_.back(); }

  // Calls body(offsets of the operands) for the start of each innermost run.
  template <typename Body>
  void for_each_run(const Body& body) const {
    std::array<int64_t, kMostDims> index{};
    Offsets at{};
    const int outer = static_cast<int>(dims_.size()) - 1;
    while (true) {
      body(at);
      int d = outer - 1;
      for (; d >= 0; --d) {
        const auto i = static_cast<size_t>(d);
        for (size_t k = 0; k < K; ++k) {
          at[k] += steps_[i][k];
        }
        if (++index[i] < dims_[i]) {
          break;
        }
        for (size_t k = 0; k < K; ++k) {
          at[k] -= steps_[i][k] * dims_[i];
        }
        index[i] = 0;
      }
      if (d < 0) {
        return;
      }
    }
  }

 private:
  static bool merges(const Offsets& outer, const Offsets& inner, int64_t count) {
    for (size_t k = 0; k < K; ++k) {
      if (outer[k] != inner[k] * count) {
        return false;
      }
    }
    return true;
  }

  std::vector<int64_t> dims_;
  std::vector<Offsets> steps_;
};

}  // namespace xrun::ops
