// Head loops for AVX512-BF16: products of bf16 pairs with f32 sums.
#include <immintrin.h>

#include "ops/head/loops/kernels.h"

namespace xrun::ops {
namespace {

#include "ops/head/loops/kernels_impl.h"
#include "ops/head/loops/lanes_avx512.h"
#include "ops/head/loops/pairs_avx512.h"

}  // namespace

constinit const HeadKernels kHeadAvx512Bf16 = table_of_pairs(gemm<Avx512Bf16>);

}  // namespace xrun::ops
