// TermSums: sums of a tensor to a smaller shape as launches (ops/gpu/term_sums.cu).
#pragma once

#include <vector>

#include "ops/gpu/launch/launch_list.h"

namespace xrun::ops::gpu {

class TermSums {
 public:
  // The order and the place of the sums.
  enum class Order : uint8_t {
    kSamples,  // f32; the sums have the type of the terms and are replaced
    kNumbers,  // f64; rounded and added to f32 sums
    kTerms,    // each term is added to f32 sums
  };

  // Sums over terms of this type to the shape of `sums`, for `rows` samples. REQUIRES: dimensions of `sums` are 1 or
  // those of the terms.
  TermSums(const TensorType& sums, const TensorType& terms, int64_t rows);
  // Sums over dimensions, the innermost last, with the steps of the terms and of the sums; a dimension with the step 0
  // of the sums is summed.
  static TermSums of_axes(std::vector<int64_t> dims, std::vector<int64_t> term_steps, std::vector<int64_t> sum_steps);

  // Whether the kernels have enough dimensions.
  bool can_sum() const;
  // REQUIRES: can_sum(); `dtype`, the type of the terms, is f32 or bf16.
  void add(LaunchList& list, DType dtype, Order order, const GpuArgument& terms, const GpuArgument& sums) const;

 private:
  struct Axis {
    int64_t size, term_step, sum_step;
  };
  explicit TermSums(std::vector<Axis> axes) : axes_(std::move(axes)) {}
  std::vector<Axis> axes_of(bool summed) const;

  std::vector<Axis> axes_;  // the innermost last
};

// The sums of one result of a gradient, in the order of the processor's kernels (ops/reduce/sums.cpp): a result with
// samples has sums of its samples, a parameter has the sums of all samples of each row block, one after the other.
class ResultSums {
 public:
  // Errors: XG0824 for more dimensions than the kernels have.
  static Result<ResultSums> make(const GpuSpec& spec, const TensorType& result, const TensorType& terms);
  // Adds the launches for terms that are contiguous in memory.
  void add(LaunchList& list, const GpuArgument& terms, const GpuArgument& result, int64_t blocks) const;

 private:
  ResultSums(GpuSpec spec, TensorType result, TensorType terms)
      : spec_(std::move(spec)), result_(std::move(result)), terms_(std::move(terms)) {}

  GpuSpec spec_;
  TensorType result_;
  TensorType terms_;
};

}  // namespace xrun::ops::gpu
