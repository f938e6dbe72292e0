// Kernels that are strided copies into one output.
#pragma once

#include <cstring>
#include <vector>

#include "ops/op.h"
#include "ops/strides.h"

namespace xrun::ops {

// One strided copy: from an input or from scratch, to the output or to scratch.
struct Copy {
  int input = 0;
  int64_t from = 0;  // first element
  int64_t to = 0;
  StridedLoop<2> loop;  // 0: target, 1: source
};

template <typename T>
void run_copy(const Copy& copy, const T* source, T* target) {
  const auto& steps = copy.loop.inner_steps();
  const int64_t n = copy.loop.inner_count();
  copy.loop.for_each_run([&](const auto& at) {
    T* const t = target + copy.to + at[0];
    const T* const s = source + copy.from + at[1];
    if (steps[0] == 1 && steps[1] == 1) {
      std::memcpy(t, s, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) {
        t[i * steps[0]] = s[i * steps[1]];
      }
    }
  });
}

// Copies into one output, which is zeroed first where they do not cover it.
template <typename T>
class Copies : public Kernel {
 public:
  Status run(const KernelCall& call) const override {
    T* const y = call.outputs[0].as<T>();
    if (zeroes_ > 0) {
      std::memset(static_cast<void*>(y), 0, static_cast<size_t>(zeroes_) * sizeof(T));
    }
    for (const Copy& copy : copies_) {
      run_copy(copy, static_cast<const T*>(call.inputs[static_cast<size_t>(copy.input)].as<T>()), y);
    }
    return {};
  }

 protected:
  int64_t zeroes_ = 0;
  std::vector<Copy> copies_;
};

}  // namespace xrun::ops
