// Head loops for AVX512-BF16: products of bf16 pairs with f32 sums.
#include <immintrin.h>

#include "ops/head/kernels.h"

namespace xrun::ops {
namespace {

#include "ops/head/kernels_impl.h"
#include "ops/head/lanes_avx512.h"
#include "ops/head/pairs_avx512.h"

}  // namespace

constinit const HeadKernels kHeadAvx512Bf16 = table_of_pairs(gemm<Avx512Bf16>);

}  // namespace xrun::ops
