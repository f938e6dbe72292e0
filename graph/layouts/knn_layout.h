// Sizes of a build of the graph of nearest classes, and the layout of its working memory. The planner computes sizes
// with it, and the kernels (ops/knn/knn.h) lay out their buffers with it.
#pragma once

#include <cstdint>

#include "graph/base/units.h"

namespace xrun {

struct KnnShape {
  int64_t classes = 1;  // number of classes, at most 2^31 - 1
  int64_t dim = 1;
  int64_t neighbours = 1;  // length of each class's list of nearest classes
  int workers = 1;         // most workers of a build of the graph

  // The number of entries of a list that hold a class; the remaining entries are -1.
  int64_t found() const { return neighbours < classes ? neighbours : classes; }
};

// Working memory of a build, enough for the kernels of any instruction set.
Bytes knn_scratch_bytes(const KnnShape& shape);

inline constexpr int64_t kKnnPanel = 32;  // rows and columns of a tile of a product
inline constexpr Bytes kKnnRoundingBytes = 16;
inline constexpr int64_t kKnnBlock = 512;  // most classes of a block
inline constexpr int64_t kKnnAgain = 256;  // most classes that a worker searches again at a time

// The layout of the working memory: a pure function of the shape and the operand type. With `in_pairs` an element is
// two bf16 numbers, otherwise one f32 number.
struct KnnLayout {
  KnnLayout(const KnnShape& shape, bool in_pairs);

  bool pairs;
  int64_t block;  // classes of a block; a multiple of 64
  int64_t blocks;
  int64_t dim_padded;
  int64_t steps;     // elements of a packed row
  int64_t capacity;  // capacity of a list of candidates
  int64_t stride;    // stride of a tile of scores

  // Offsets in the scratch:
  Bytes inverse = 0;
  Bytes limits = 0;  // score that a candidate has to reach, for each class of all blocks; then a block of infinities
  Bytes counts = 0;
  Bytes again = 0;  // ids of the classes that are searched again
  Bytes keys = 0;
  Bytes panels = 0;
  Bytes workers = 0;  // the first worker's slice
  Bytes total = 0;

  // Offsets in a worker's slice:
  Bytes tile = 0;
  Bytes hits = 0;
  Bytes direction = 0;
  Bytes rounding = 0;
  Bytes left = 0;  // the two operands of a second search in f32
  Bytes right = 0;
  Bytes slice = 0;  // bytes of a worker's slice
};

}  // namespace xrun
