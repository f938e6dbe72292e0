// Head loops for AVX-512 (F, BW, DQ, VL), operands in f32.
#include <immintrin.h>

#include "ops/head/kernels.h"

namespace xrun::ops {
namespace {

#include "ops/head/kernels_impl.h"
#include "ops/head/lanes_avx512.h"

}  // namespace

const HeadKernels kHeadAvx512 = {
    .pairs = false,
    .gemm = gemm<Avx512>,
    .pack_classes = pack_classes<Avx512>,
    .add_stats = add_stats<Avx512>,
    .gradient = gradient<Avx512>,
    .pack_gradient = nullptr,
    .sum_rows = sum_rows<Avx512>,
    .add = add<Avx512>,
    .inverse_norm = inverse_norm<Avx512>,
    .project = project<Avx512>,
};

}  // namespace xrun::ops
