// Makes a kernel class for the element type of a node's first input.
#pragma once

#include <memory>

#include "ops/op.h"
#include "ops/simd.h"

namespace xrun::ops {

template <template <typename> class K>
Result<std::unique_ptr<Kernel>> make_by_dtype(const KernelSpec& spec) {
  if (spec.inputs[0].dtype == DType::kBF16) {
    return std::unique_ptr<Kernel>(std::make_unique<K<Bf16>>(spec));
  }
  return std::unique_ptr<Kernel>(std::make_unique<K<float>>(spec));
}

}  // namespace xrun::ops
