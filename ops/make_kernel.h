// Makes a kernel class from its spec, or for the element type of a node's first input.
#pragma once

#include <memory>

#include "ops/op.h"
#include "ops/simd.h"

namespace xrun::ops {

// A kernel that is one function of what its spec says, kept as `State`, and of the call. Its calls can be cut where the
// state counts their parts.
template <class State, void (*kRun)(const State&, const KernelCall&)>
class Applied final : public Kernel {
 public:
  explicit Applied(const KernelSpec& spec) : state_(spec) {}
  int64_t parts() const override {
    if constexpr (requires { state_.parts(); }) {
      return state_.parts();
    }
    return 1;
  }
  Status run(const KernelCall& call) const override {
    kRun(state_, call);
    return {};
  }

 private:
  State state_;
};

template <class K>
Result<std::unique_ptr<Kernel>> make_plain(const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(std::make_unique<K>(spec));
}

template <template <typename> class K>
Result<std::unique_ptr<Kernel>> make_by_dtype(const KernelSpec& spec) {
  return spec.inputs[0].dtype == DType::kBF16 ? make_plain<K<Bf16>>(spec) : make_plain<K<float>>(spec);
}

}  // namespace xrun::ops
