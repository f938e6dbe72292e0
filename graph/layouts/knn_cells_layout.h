// Sizes of an approximate build of the graph of nearest classes and of the measurement of its recall, and the layout of
// their working memory. The planner computes sizes with it, and the kernels (ops/knn/knn_cells.h, ops/knn/knn_recall.h)
// lay out their buffers with it.
#pragma once

#include <cstdint>

#include "graph/layouts/knn_layout.h"
#include "graph/settings/head_def.h"

namespace xrun {

struct KnnCellsShape {
  KnnShape graph;
  int64_t probes = kUsualProbes;  // cells that a class is compared with; more take longer, and find more neighbours
  uint64_t seed = 0;              // seed of the sample

  // The number of cells. A cell has at least 64 classes on average. There are few enough cells that finding those
  // nearest to a class takes no longer than comparing the class with their members.
  int64_t cells() const;
};

inline constexpr int64_t kKnnSearchRows = 1024;                  // most rows of a search
inline constexpr int64_t kKnnSearchStride = 8 * kKnnPanel + 16;  // stride of the rows of a tile of scores
inline constexpr int64_t kKnnRecallClasses = 256;                // classes whose lists are compared with exact lists
inline constexpr int64_t kKnnRecallPacked = 128;  // classes that the measurement of recall packs at a time

// Working memory of a search with lists of at most `most` classes (ops/knn/block_search.h).
struct KnnSearchLayout {
  KnnSearchLayout(int64_t dim, int64_t most);

  int64_t dim_padded;
  int64_t capacity;  // capacity of a list of candidates
  Bytes directions, left, tile, hits, own, keys, counts, limits;
  Bytes total = 0;
};

struct KnnCellsLayout {
  explicit KnnCellsLayout(const KnnCellsShape& shape);

  int64_t classes, dim, dim_padded, cells, probes;
  int64_t sample;   // classes from which the cells are computed
  int64_t largest;  // most classes of a cell that a class is compared with
  int64_t most;     // most entries of a list of the search
  Bytes inverse, probed, order, starts, centres, centre_panels, panels, workers;
  Bytes wanted, rows, sums, direction, compared, search;  // parts of a worker's slice
  Bytes slice = 0;
  Bytes total = 0;
};

struct KnnRecallLayout {
  explicit KnnRecallLayout(const KnnShape& shape);

  int64_t rows, dim_padded, wanted;
  Bytes all, ids, inverse, direction, panels, search;  // parts of a worker's slice
  Bytes slice = 0;
  Bytes best;  // nearest classes of one row, from all workers
  Bytes total;
};

// Working memory of an approximate build and of the measurement of its recall after it: the larger of both.
Bytes knn_cells_scratch_bytes(const KnnCellsShape& shape);

}  // namespace xrun
