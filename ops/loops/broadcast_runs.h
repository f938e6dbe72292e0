// Iterates over the elements of a broadcast operand, whose dimensions are 1 or those of the result: reads them as if
// they had been copied to the shape of the result, or adds terms of that shape to them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "graph/limits.h"
#include "graph/types/tensor_type.h"
#include "ops/simd/isa.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

// Maps the elements of the result, in memory order, to the operand's elements: runs in which the operand's offset grows
// by a constant step, which is 0 if one element repeats.
class BroadcastRuns {
 public:
  // REQUIRES: broadcast() of these types succeeds. `rows`: rows of the row block.
  BroadcastRuns(const TensorType& operand, const TensorType& result, int64_t rows);

  const std::vector<int64_t>& dims() const { return dims_; }    // dimensions of the result, merged; the innermost last
  const std::vector<int64_t>& steps() const { return steps_; }  // steps of the operand, in elements
  bool is_one_run() const { return dims_.size() == 1; }

  // The operand's element for one element of the result.
  struct Place {
    std::array<int64_t, kMostDims> index{};
    int64_t at = 0;  // offset of the element in the operand
  };
  Place place_of(int64_t element) const;
  // Divides the `n` elements of the result that start at `begin` into runs and calls body(at, done, run) for each.
  // `done` elements come before the run; its `run` elements belong to the operand's elements at, at + step, at + 2
  // step, ...
  template <typename Body>
  void for_each(int64_t begin, int64_t n, const Body& body) const {
    Place place = place_of(begin);
    const size_t inner = dims_.size() - 1;
    for (int64_t done = 0; done < n;) {
      const int64_t run = std::min(dims_[inner] - place.index[inner], n - done);
      body(place.at, done, run);
      done += run;
      advance(place, run);
    }
  }

 private:
  void advance(Place& place, int64_t run) const;

  std::vector<int64_t> dims_;
  std::vector<int64_t> steps_;
};

// Reads an operand as if it had the shape of the result: f32, in the memory order of the result.
class BroadcastReader {
 public:
  // REQUIRES: broadcast() of these types succeeds. `rows`: rows of the row block.
  BroadcastReader(const TensorType& operand, const TensorType& result, int64_t rows)
      : dtype_(operand.dtype), runs_(operand, result, rows) {}

  // Whether the operand has the same elements as the result in the same order, so that nothing needs to be copied.
  bool is_whole() const { return runs_.is_one_run() && runs_.steps()[0] == 1; }
  // Returns the number of elements after which the operand repeats: 1 for a single number, 0 if it does not repeat.
  int64_t period() const;
  // run() is the number of elements of the innermost run, which are contiguous or repeat a single one. lies_there() is
  // true if runs are contiguous f32 and so can be read without a copy.
  int64_t run() const { return runs_.dims().back(); }
  bool lies_there() const { return dtype_ == DType::kF32 && runs_.steps().back() == 1; }
  // Returns the address of `n` elements that start at `begin`: in the operand itself if they are contiguous f32 there,
  // otherwise in `block`, to which they are copied.
  const float* read(const std::byte* operand, int64_t begin, int64_t n, float* block) const;

 private:
  template <typename T>
  const float* read_as(const T* operand, int64_t begin, int64_t n, float* block) const;

  DType dtype_;
  BroadcastRuns runs_;
};

// Sums a large tensor to the smaller shape of an operand. The terms of each sum are added in memory order.
class BroadcastSums {
 public:
  // `terms`: the type of the larger tensor.
  BroadcastSums(Isa isa, const TensorType& sums, const TensorType& terms, int64_t rows)
      : isa_(isa), runs_(sums, terms, rows) {}

  // Adds the `n` terms that start at term `begin` of the larger tensor to `sums`, which are f32 or f64.
  void add(const float* terms, int64_t begin, int64_t n, float* sums) const;
  void add(const Bf16* terms, int64_t begin, int64_t n, float* sums) const;
  void add(const Half* terms, int64_t begin, int64_t n, float* sums) const;
  void add(const float* terms, int64_t begin, int64_t n, double* sums) const;
  void add(const Bf16* terms, int64_t begin, int64_t n, double* sums) const;
  void add(const Half* terms, int64_t begin, int64_t n, double* sums) const;

 private:
  template <typename T, typename S>
  void add_as(const T* terms, int64_t begin, int64_t n, S* sums) const;

  Isa isa_;
  BroadcastRuns runs_;
};

}  // namespace xrun::ops
