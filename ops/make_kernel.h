// Makes a kernel from a function of the call, for the element type of a node's first input.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "ops/op.h"
#include "ops/parts.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

// A kernel that is a single function of the call. The function captures the parts of the spec that it needs and returns
// a Status or nothing.
template <class Run>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(Run run, Bytes scratch, int64_t parts) : run_(std::move(run)), scratch_(scratch), parts_(parts) {}
  Bytes scratch_bytes() const override { return scratch_; }
  int64_t parts() const override { return parts_; }
  Status run(const KernelCall& call) const override {
    if constexpr (std::is_void_v<std::invoke_result_t<const Run&, const KernelCall&>>) {
      run_(call);
      return {};
    } else {
      return run_(call);
    }
  }

 private:
  Run run_;
  Bytes scratch_;
  int64_t parts_;
};

// Makes a kernel whose calls are divided into at most `parts` parts. `run` must compute only the part that part_of
// (ops/parts.h) returns for the call.
template <class Run>
Result<std::unique_ptr<Kernel>> kernel_of(Run run, Bytes scratch = 0, int64_t parts = 1) {
  return std::unique_ptr<Kernel>(std::make_unique<FunctionKernel<Run>>(std::move(run), scratch, parts));
}

// Makes a kernel over `n` rows, columns or elements. A call is divided into parts at multiples of `each`; run(call,
// some) must compute the range `some`.
template <class Run>
Result<std::unique_ptr<Kernel>> kernel_over(int64_t n, int64_t each, Run run, Bytes scratch = 0) {
  return kernel_of(
      [n, each, run = std::move(run)](const KernelCall& call) { return run(call, part_of(call, n, each)); }, scratch,
      runs_of(n, each));
}

template <class Run>
Result<std::unique_ptr<Kernel>> kernel_over_rows(int64_t rows, Run run, Bytes scratch = 0) {
  return kernel_over(rows, 1, std::move(run), scratch);
}

template <class Run>
Result<std::unique_ptr<Kernel>> kernel_over_elements(int64_t n, Run run) {
  return kernel_over(n, kElementRun, std::move(run));
}

template <class K>
Result<std::unique_ptr<Kernel>> make_plain(const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(std::make_unique<K>(spec));
}

// Makes the kernel with `kF32`, `kBF16` or `kF16`, according to the dtype of the first input.
template <MakeKernel kF32, MakeKernel kBF16, MakeKernel kF16>
Result<std::unique_ptr<Kernel>> by_dtype(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  return (dtype == DType::kBF16 ? kBF16 : dtype == DType::kF16 ? kF16 : kF32)(spec);
}

// Returns f(number), where `number` has the C++ type of elements of `dtype`: Bf16, Half, or float for any other type.
template <class Function>
auto with_type(DType dtype, const Function& f) {
  return dtype == DType::kBF16 ? f(Bf16()) : dtype == DType::kF16 ? f(Half()) : f(0.0F);
}

template <template <typename> class K>
Result<std::unique_ptr<Kernel>> make_by_dtype(const KernelSpec& spec) {
  return by_dtype<make_plain<K<float>>, make_plain<K<Bf16>>, make_plain<K<Half>>>(spec);
}

}  // namespace xrun::ops
