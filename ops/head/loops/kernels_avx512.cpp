// Head loops for AVX-512 (F, BW, DQ, VL), operands in f32.
#include <immintrin.h>

#include "ops/head/loops/kernels.h"

namespace xrun::ops {
namespace {

#include "ops/head/loops/kernels_impl.h"
#include "ops/head/loops/lanes_avx512.h"

}  // namespace

constinit const HeadKernels kHeadAvx512 = table_of<Avx512>();

}  // namespace xrun::ops
