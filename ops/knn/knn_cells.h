// An approximate graph of nearest neighbours of the rows of a class weight matrix. It is an inverted file (IVF), for so
// large numbers of classes that the exact graph (ops/knn/knn.h) would take too long.
//
//   cells            directions that k-means finds for a sample of the rows; a class belongs to the cell with which it
//                    has the largest score; if scores are equal, to the first
//   list of class c  c itself, then the nearest of the classes in the `probes` cells with which c has the largest
//                    scores; scores and order are those of the exact graph
//
// A list ends in -1 if these cells have fewer classes than the list. If a cell is much larger than most, a class is
// compared with only a part of it. The result depends only on the weights and on the shape without its workers: not on
// shares, tiles or the instruction set.
// Source: Jegou, Douze, Schmid, "Product Quantization for Nearest Neighbor Search", TPAMI 2011 (the inverted file).
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/units.h"
#include "graph/layouts/knn_cells_layout.h"
#include "ops/knn/knn_shares.h"
#include "ops/simd/isa.h"
#include "ops/workers.h"

namespace xrun::ops {

struct KnnCellsReport {
  int64_t compared = 0;  // comparisons in this share; a pair of classes counts once for each list
};

class KnnCells {
 public:
  KnnCells(const KnnCellsShape& shape, Isa isa);

  // Size of the working memory in bytes; it must be aligned to 64. It has a row in f32 and the numbers of its cells for
  // each class, and some rows with their lists for each worker.
  Bytes scratch_bytes() const;

  // Computes the lists from `weight` [classes, dim] and writes them to `neighbours` [classes][neighbours]. Allocates
  // nothing. Calls that run at once need different `scratch`.
  KnnCellsReport build(const float* weight, int32_t* neighbours, std::byte* scratch, Workers& workers) const;
  // Computes this process's share of each phase (cells of the sample, cells of all classes, lists) and gathers the
  // other shares after each phase. Errors: those of `shares`.
  Result<KnnCellsReport> build(const float* weight, int32_t* neighbours, std::byte* scratch, Workers& workers,
                               KnnShares& shares) const;

 private:
  KnnCellsShape shape_;
  Isa isa_;
};

}  // namespace xrun::ops
