// Makes a kernel of a function of the call, and for the element type of a node's first input.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "ops/op.h"
#include "ops/simd.h"

namespace xrun::ops {

// A kernel that is one function of the call; what its spec says is captured. `run` gives a Status, or nothing.
template <class Run>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(Run run, Bytes scratch) : run_(std::move(run)), scratch_(scratch) {}
  Bytes scratch_bytes() const override { return scratch_; }
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
};

template <class Run>
Result<std::unique_ptr<Kernel>> kernel_of(Run run, Bytes scratch = 0) {
  return std::unique_ptr<Kernel>(std::make_unique<FunctionKernel<Run>>(std::move(run), scratch));
}

template <class K>
Result<std::unique_ptr<Kernel>> make_plain(const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(std::make_unique<K>(spec));
}

// `kF32` or `kBF16`, as the first input is.
template <MakeKernel kF32, MakeKernel kBF16>
Result<std::unique_ptr<Kernel>> by_dtype(const KernelSpec& spec) {
  return (spec.inputs[0].dtype == DType::kBF16 ? kBF16 : kF32)(spec);
}

template <template <typename> class K>
Result<std::unique_ptr<Kernel>> make_by_dtype(const KernelSpec& spec) {
  return by_dtype<make_plain<K<float>>, make_plain<K<Bf16>>>(spec);
}

}  // namespace xrun::ops
