// An approximate graph of nearest neighbours of the rows of a class weight matrix, for numbers of classes for which the
// exact graph (ops/knn.h) takes too long: an inverted file (IVF).
//
//   cells            directions that k-means finds for a sample of the rows; a class belongs to the cell with which it
//                    has the largest score; if scores are equal, to the first
//   list of class c  c itself, then the nearest of the classes in the `probes` cells with which c has the largest
//                    scores; scores and order are those of the exact graph
//
// A list ends in -1 if these cells have fewer classes. A class is compared with only a part of a cell that is much
// larger than most. The result depends only on the weights and on the shape without its workers: not on shares, tiles
// or the instruction set.
// Source: Jegou, Douze, Schmid, "Product Quantization for Nearest Neighbor Search", TPAMI 2011 (the inverted file).
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/units.h"
#include "graph/knn_cells_layout.h"
#include "ops/isa.h"
#include "ops/knn_shares.h"
#include "ops/workers.h"

namespace xrun::ops {

struct KnnCellsReport {
  int64_t compared = 0;  // comparisons of a class with another in this share; a pair counts once for each side
};

class KnnCells {
 public:
  KnnCells(const KnnCellsShape& shape, Isa isa);

  // Bytes of working memory, aligned to 64: for each class its row in f32 and the numbers of its cells, for each worker
  // some rows with their lists.
  Bytes scratch_bytes() const;

  // Writes neighbours[classes][neighbours]. `weight` is [classes, dim]. Allocates nothing. Calls that run at once need
  // different `scratch`.
  KnnCellsReport build(const float* weight, int32_t* neighbours, std::byte* scratch, Workers& workers) const;
  // Does one share of each phase (cells of the sample, cells of all classes, lists), and gathers the other shares after
  // it. Errors: those of `shares`.
  Result<KnnCellsReport> build(const float* weight, int32_t* neighbours, std::byte* scratch, Workers& workers,
                               KnnShares& shares) const;

 private:
  KnnCellsShape shape_;
  Isa isa_;
};

}  // namespace xrun::ops
