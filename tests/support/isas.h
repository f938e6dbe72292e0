// The instruction sets with which tests of kernels run.
#pragma once

#include <vector>

#include "ops/simd/isa.h"

namespace xrun::ops {

// Returns all instruction sets that this processor supports.
inline std::vector<Isa> all_isas() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
    if (isa <= detect_isa()) {
      all.push_back(isa);
    }
  }
  return all;
}

}  // namespace xrun::ops
