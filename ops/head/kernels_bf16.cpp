// Head loops for AVX512-BF16: products of bf16 pairs with f32 sums.
#include <immintrin.h>

#include "ops/head/kernels.h"

namespace xrun::ops {
namespace {

#include "ops/head/kernels_impl.h"
#include "ops/head/lanes_avx512.h"
#include "ops/head/pairs_avx512.h"

}  // namespace

const HeadKernels kHeadAvx512Bf16 = {
    .pairs = true,
    .gemm = gemm<Avx512Bf16>,
    .pack_classes = pack_classes_pairs,
    .add_stats = add_stats<Avx512>,
    .gradient = gradient<Avx512>,
    .pack_gradient = pack_gradient_pairs,
    .sum_rows = sum_rows<Avx512>,
    .add = add<Avx512>,
    .inverse_norm = inverse_norm<Avx512>,
    .project = project<Avx512>,
};

}  // namespace xrun::ops
