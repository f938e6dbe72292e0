#include "graph/layouts/knn_cells_layout.h"

#include <algorithm>
#include <cmath>

namespace xrun {
namespace {

constexpr int64_t kClassesOfCell = 64;  // least average number of classes of a cell
constexpr int64_t kSampleOfCell = 16;   // average number of sampled classes of a cell
constexpr int64_t kLargest = 8;         // largest cell, as a multiple of the average

Bytes take(Bytes& end, Bytes bytes) {
  const Bytes begin = end;
  end += align_up(bytes);
  return begin;
}

}  // namespace

int64_t KnnCellsShape::cells() const {
  const auto balanced = std::llround(std::sqrt(static_cast<double>(graph.classes) * static_cast<double>(probes)));
  return std::clamp<int64_t>(graph.classes / kClassesOfCell, 1, balanced);
}

KnnSearchLayout::KnnSearchLayout(int64_t dim, int64_t most)
    : dim_padded(align_up(dim, kKnnPanel)), capacity(align_up(std::max<int64_t>(2 * most, 64), 8)) {
  directions = take(total, kKnnSearchRows * dim_padded * 4);
  left = take(total, kKnnSearchRows * dim_padded * 4);
  tile = take(total, kKnnPanel * kKnnSearchStride * 4);
  hits = take(total, kKnnPanel * kKnnPanel * 4);
  own = take(total, kKnnSearchRows * 4);
  keys = take(total, kKnnSearchRows * capacity * 8);
  counts = take(total, kKnnSearchRows * 4);
  limits = take(total, kKnnSearchRows * 4);
}

KnnCellsLayout::KnnCellsLayout(const KnnCellsShape& shape)
    : classes(shape.graph.classes),
      dim(shape.graph.dim),
      dim_padded(align_up(dim, kKnnPanel)),
      cells(shape.cells()),
      probes(std::min(shape.probes, cells)),
      sample(std::min(classes, kSampleOfCell * cells)),
      largest(std::max(kLargest * classes / cells, 2 * kKnnSearchRows)),
      most(std::max(probes, shape.graph.found() - 1)) {
  Bytes end = 0;
  inverse = take(end, classes * 4);
  probed = take(end, classes * probes * 4);
  order = take(end, classes * 4);
  starts = take(end, (cells + 1) * 4);
  centres = take(end, cells * dim_padded * 4);
  centre_panels = take(end, align_up(cells, kKnnPanel) * dim_padded * 4);
  panels = take(end, align_up(classes, kKnnPanel) * dim_padded * 4);
  workers = end;
  wanted = take(slice, kKnnSearchRows * probes * 8);
  rows = take(slice, kKnnSearchRows * 4);
  sums = take(slice, dim_padded * 8);
  direction = take(slice, dim_padded * 4);
  compared = take(slice, 8);
  search = take(slice, KnnSearchLayout(dim, most).total);
  total = workers + slice * shape.graph.workers;
}

KnnRecallLayout::KnnRecallLayout(const KnnShape& shape)
    : rows(std::min(kKnnRecallClasses, shape.classes)),
      dim_padded(align_up(shape.dim, kKnnPanel)),
      wanted(shape.found() - 1) {
  all = take(slice, rows * 4);
  ids = take(slice, kKnnRecallPacked * 4);
  inverse = take(slice, kKnnRecallPacked * 4);
  direction = take(slice, dim_padded * 4);
  panels = take(slice, kKnnRecallPacked * dim_padded * 4);
  search = take(slice, KnnSearchLayout(shape.dim, wanted).total);
  best = slice * shape.workers;
  total = best + align_up(shape.workers * wanted * 8);
}

Bytes knn_cells_scratch_bytes(const KnnCellsShape& shape) {
  return std::max(KnnCellsLayout(shape).total, KnnRecallLayout(shape.graph).total);
}

}  // namespace xrun
