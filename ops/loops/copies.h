// Kernels that are strided copies into one output.
#pragma once

#include <cstring>
#include <vector>

#include "ops/loops/strides.h"
#include "ops/make_kernel.h"

namespace xrun::ops {

// One strided copy: from an input or from scratch, to the output or to scratch.
struct Copy {
  int input = 0;
  int64_t from = 0;  // offset of the first element in the source
  int64_t to = 0;
  StridedLoop<2> loop;  // operand 0 is the target, operand 1 the source
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

// All copies into one output. If they do not cover the whole output, its first `zeroes` elements are set to 0 first.
struct Copies {
  std::vector<Copy> copies;
  int64_t zeroes = 0;
};

// Returns the copy that fills the whole output from the first input, which it reads from element `from` on with
// `strides`.
Copies copy_from(const KernelSpec& spec, int64_t from, const std::vector<int64_t>& strides);
// Returns the copy that writes the whole first input to the output from element `to` on with `strides`. The rest of the
// output is zero.
Copies copy_to(const KernelSpec& spec, int64_t to, const std::vector<int64_t>& strides);

template <typename T>
Result<std::unique_ptr<Kernel>> make_copies_of(Copies all) {
  return kernel_of([all = std::move(all)](const KernelCall& call) {
    T* const y = call.outputs[0].as<T>();
    if (all.zeroes > 0) {
      std::memset(static_cast<void*>(y), 0, static_cast<size_t>(all.zeroes) * sizeof(T));
    }
    for (const Copy& copy : all.copies) {
      run_copy(copy, static_cast<const T*>(call.inputs[static_cast<size_t>(copy.input)].as<T>()), y);
    }
  });
}

// A kernel that runs the copies which `kCopies` returns for a spec; elements have two or four bytes.
template <Copies (*kCopies)(const KernelSpec&)>
Result<std::unique_ptr<Kernel>> make_copies(const KernelSpec& spec) {
  return is_narrow(spec.inputs[0].dtype) ? make_copies_of<Bf16>(kCopies(spec)) : make_copies_of<float>(kCopies(spec));
}

}  // namespace xrun::ops
