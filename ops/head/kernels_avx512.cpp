// Head loops for AVX-512 (F, BW, DQ, VL), operands in f32.
#include <immintrin.h>

#include "ops/head/kernels.h"

namespace xrun::ops {
namespace {

#include "ops/head/kernels_impl.h"
#include "ops/head/lanes_avx512.h"

}  // namespace

constinit const HeadKernels kHeadAvx512 = table_of<Avx512>();

}  // namespace xrun::ops
