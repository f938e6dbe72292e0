#include "ops/head/loops/kernels.h"

namespace xrun::ops {

const HeadKernels& head_kernels(Isa isa, bool bf16) {
  if (bf16 && isa >= Isa::kAmx) {
    return kHeadAmx;
  }
  if (bf16 && isa >= Isa::kAvx512Bf16) {
    return kHeadAvx512Bf16;
  }
  return isa >= Isa::kAvx512 ? kHeadAvx512 : kHeadAvx2;
}

}  // namespace xrun::ops
