// The loops of HeadKernels, written over a vector type V with these members:
//   V::F, kWidth, load store broadcast fma max add sub mul exp less_mask ...
// Each kernels_*.cpp includes this file once, after V and inside an unnamed namespace. It is compiled for one
// instruction set, so it must not instantiate anything that other files share. Every loop has one order of operations,
// whatever its bounds. Rows are lanes, which never mix.

constexpr int64_t kPanel = 32;

#include "ops/head/loops/exp_loop.h"
#include "ops/head/loops/product_loops.h"
#include "ops/head/loops/strip_loops.h"
#include "ops/head/loops/tile_loops.h"
#include "ops/head/loops/vector_loops.h"

// The table for f32 operands.
template <typename V>
constexpr HeadKernels table_of() {
  return {.gemm = gemm<V>,
          .pack_classes = pack_classes<V>,
          .add_stats = add_stats<V>,
          .gradient = gradient<V>,
          .sum_rows = sum_rows<V>,
          .add = add<V>,
          .stream = stream<V>,
          .inverse_norm = inverse_norm<V>,
          .project = project<V>};
}
