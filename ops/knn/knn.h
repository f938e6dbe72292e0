// The exact graph of nearest neighbours of the rows of a class weight matrix, by cosine.
//
//   direction of class c    n_c = w_c · inverse_c in f32, where inverse_c is 1 / max(norm of w_c, kHeadEpsilon),
//                           rounded to f32.
//                           A row of zeros, or with a number that is not finite, has the direction 0.
//   score of two classes    the f32 product n_a · n_b, one chain of fused multiply-adds in the order of the dimensions
//   list of class c         c itself, then the others by score descending and id ascending, `neighbours` entries in all
//
// The scores of all pairs are computed tile by tile and never stored (docs/internals/algorithms.md, "Graph of nearest
// classes"). The result depends only on the weights and on `neighbours`: not on workers, shares, tiles, or the
// instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/units.h"
#include "graph/layouts/knn_layout.h"
#include "ops/knn/knn_shares.h"
#include "ops/simd/isa.h"
#include "ops/workers.h"

namespace xrun::ops {

struct KnnReport {
  // The number of classes that were compared with all classes a second time, in f32. This is necessary if more classes
  // may be nearest neighbours, within the rounding error of bf16, than a list of candidates holds. Counts only this
  // share.
  int64_t searched_again = 0;
};

class KnnGraph {
 public:
  // Computes all scores in bf16 if `isa` has products of bf16, and then ranks the candidates by their scores in f32.
  // Otherwise all scores are f32.
  KnnGraph(const KnnShape& shape, Isa isa);

  // Size of the working memory in bytes; it must be aligned to 64. It has the packed row and 3 · neighbours candidates
  // of 8 bytes for each class, and some tiles for each worker.
  Bytes scratch_bytes() const;

  // Computes the lists from `weight` [classes, dim] and writes them to `neighbours` [classes][shape.neighbours].
  // Allocates nothing. Calls that run at once need different `scratch`.
  KnnReport build(const float* weight, int32_t* neighbours, std::byte* scratch, Workers& workers) const;
  // Computes the lists of this process's share of the classes, and gathers the lists of the other shares. Each of n
  // shares compares 2/n - 1/n² of all pairs of classes, because pairs within a share are compared once and all other
  // pairs twice. Errors: those of `shares`.
  Result<KnnReport> build(const float* weight, int32_t* neighbours, std::byte* scratch, Workers& workers,
                          KnnShares& shares) const;

 private:
  KnnShape shape_;
  Isa isa_;
};

}  // namespace xrun::ops
