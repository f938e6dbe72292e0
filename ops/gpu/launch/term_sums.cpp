// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include "ops/gpu/launch/term_sums.h"

#include "ops/gpu/launch/column_sums.h"
#include "ops/loops/broadcast_runs.h"
#include "ops/loops/strides.h"

namespace xrun::ops::gpu {
namespace {

constexpr size_t kMostAxes = 4;  // kept dimensions of a kernel, and summed ones

}  // namespace

TermSums::TermSums(const TensorType& sums, const TensorType& terms, int64_t rows) {
  const BroadcastRuns runs(sums, terms, rows);
  const std::vector<int64_t> steps = row_major(runs.dims());
  for (size_t d = 0; d < steps.size(); ++d) {
    axes_.push_back({runs.dims()[d], steps[d], runs.steps()[d]});
  }
}

TermSums TermSums::of_axes(std::vector<int64_t> dims, std::vector<int64_t> term_steps, std::vector<int64_t> sum_steps) {
  std::vector<Axis> axes;
  for (size_t d = 0; d < dims.size(); ++d) {
    axes.push_back({dims[d], term_steps[d], sum_steps[d]});
  }
  return TermSums(std::move(axes));
}

std::vector<TermSums::Axis> TermSums::axes_of(bool summed) const {
  std::vector<Axis> chosen;
  std::ranges::copy_if(axes_, std::back_inserter(chosen),
                       [summed](const Axis& axis) { return (axis.sum_step == 0) == summed; });
  std::ranges::reverse(chosen);
  return chosen;
}

bool TermSums::can_sum() const { return axes_of(false).size() <= kMostAxes && axes_of(true).size() <= kMostAxes; }

void TermSums::add(LaunchList& list, DType dtype, Order order, const GpuArgument& terms,
                   const GpuArgument& sums) const {
  const std::vector<Axis> kept = axes_of(false), summed = axes_of(true);
  int64_t count = 1;
  for (const Axis& axis : kept) {
    count *= axis.size;
  }
  std::vector<GpuArgument> arguments{terms, sums, argument_of(count)};
  const auto append = [&](const std::vector<Axis>& axes, size_t most, int64_t Axis::*member, int64_t otherwise) {
    for (size_t d = 0; d < most; ++d) {
      arguments.push_back(argument_of(d < axes.size() ? axes[d].*member : otherwise));
    }
  };
  append(kept, kMostAxes - 1, &Axis::size, 1);
  append(kept, kMostAxes, &Axis::term_step, 0);
  append(kept, kMostAxes, &Axis::sum_step, 0);
  append(summed, kMostAxes, &Axis::size, 1);
  append(summed, kMostAxes, &Axis::term_step, 0);
  const char* const name = order == Order::kSamples   ? "sum_samples_"
                           : order == Order::kNumbers ? "add_sums_"
                                                      : "add_terms_";
  list.add_to("term_sums", name + std::string(name_of(dtype)), {pieces_of(count, kThreadsOfBlock), 1, 1},
              {kThreadsOfBlock, 1, 1}, std::move(arguments));
}

Result<ResultSums> ResultSums::make(const GpuSpec& spec, const TensorType& result, const TensorType& terms) {
  XRUN_TRY(type_ending(spec, terms.dtype));
  if (!TermSums(result, terms, std::max<int64_t>(2, spec.rows(spec.most_blocks))).can_sum()) {
    return no_gpu_kernel(spec, "tensors of so many dimensions");
  }
  return ResultSums(spec, result, terms);
}

void ResultSums::add(LaunchList& list, const GpuArgument& terms, const GpuArgument& result, int64_t blocks) const {
  if (result_.has_batch()) {
    const TermSums sums(result_, terms_, spec_.rows(blocks));
    return sums.add(list, terms_.dtype, TermSums::Order::kSamples, terms, result);
  }
  const int64_t count = result_.row_elements(), block = spec_.elements(terms_, 1);
  if (!terms_.is_channels_last() && result_.rank() == 1 && terms_.dims.back() == count) {
    return add_column_sums(list, terms_.dtype, terms, result, block / count, count, blocks);
  }
  const TermSums sums(result_, terms_, spec_.node.rows);
  for (int64_t b = 0; b < blocks; ++b) {
    sums.add(list, terms_.dtype, TermSums::Order::kNumbers, after(terms, b * block * size_of(terms_.dtype)), result);
  }
}

}  // namespace xrun::ops::gpu
