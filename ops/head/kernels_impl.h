// The loops of HeadKernels over a vector type V. Included once by each kernels_*.cpp, inside an unnamed namespace,
// after V; those files are compiled for their instruction set and must not instantiate anything shared with other
// files.
//   V::F, kWidth, load store broadcast fma max add sub mul exp less_mask ...
// Every loop has one order of operations, whatever its bounds; rows are lanes, which never mix.

constexpr int64_t kPanel = 32;

#include "ops/head/exp_loop.h"
#include "ops/head/insert_best.h"
#include "ops/head/product_loops.h"
#include "ops/head/strip_loops.h"
#include "ops/head/tile_loops.h"
#include "ops/head/vector_loops.h"

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
