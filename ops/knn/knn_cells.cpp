// Steps of a build:
// 1. k-means over a sample of the classes finds the centres of the cells.
// 2. Each class finds its nearest cells.
// 3. The classes are packed in the order of their cells.
// 4. Blocks of 1,024 consecutive classes in this order are compared with their nearest cells, cell by cell.
// In each step workers process different blocks of classes, and all sums add classes in ascending order, so the result
// does not depend on the workers. If there are several shares, steps 1, 2 and 4 are divided by blocks, and every share
// computes all the rest. Blocks of lists are in the order of cells and are gathered in this order.
#include "ops/knn/knn_cells.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/base/check.h"
#include "graph/base/random.h"
#include "ops/knn/block_search.h"
#include "ops/knn/rows.h"

namespace xrun::ops {
namespace {

constexpr int64_t kPanel = kKnnPanel;
constexpr int64_t kRows = kKnnSearchRows;
constexpr uint64_t kSample = 0x6b6e6e63;  // separates these random numbers from random numbers for other purposes
constexpr int kIterations = 4;            // iterations of k-means

int64_t blocks_of(int64_t n) { return (n + kRows - 1) / kRows; }

class Build {
 public:
  Build(const KnnCellsShape& shape, Isa isa, const float* weight, int32_t* neighbours, std::byte* scratch,
        KnnShares& shares)
      : shape_(shape),
        at_(shape),
        shares_(shares),
        isa_(isa),
        base_(scratch),
        rows_{weight, part<float>(at_.inverse), at_.dim},
        neighbours_(neighbours),
        sample_(static_cast<uint64_t>(at_.classes), shape.seed, kSample) {}

  Result<KnnCellsReport> run(Workers& workers);

 private:
  template <typename T>
  T* part(Bytes offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  template <typename T>
  T* own(int worker, Bytes offset) const {
    return part<T>(at_.workers + worker * at_.slice + offset);
  }
  KnnBlockSearch searcher(int worker, int64_t wanted) const {
    return {isa_, at_.dim, wanted, at_.most, own<std::byte>(worker, at_.search)};
  }
  int32_t sampled(int64_t i) const { return static_cast<int32_t>(sample_(static_cast<uint64_t>(i))); }
  float* centre(int64_t cell) const { return part<float>(at_.centres) + cell * at_.dim_padded; }

  // Calls body(block, worker) for this share of the blocks that `count` classes form.
  template <typename Body>
  void for_own_blocks(int64_t count, Workers& workers, const Body& body) const {
    const BlockRange own = shares_.own(blocks_of(count));
    workers.for_each(own.size(), [&](int64_t i, int worker) { body(own.begin + i, worker); });
  }
  // Gathers an array of `width` numbers for each of `count` classes from all shares.
  Status gather(int32_t* entries, int64_t count, int64_t width) const {
    const auto bytes = static_cast<Bytes>(sizeof(int32_t)) * width;
    return shares_.gather({reinterpret_cast<std::byte*>(entries), static_cast<size_t>(count * bytes)}, kRows * bytes);
  }

  Status find_centres(Workers& workers);
  void pack_centres(Workers& workers) const;
  template <typename IdOf>
  Status find_cells(int64_t count, int64_t wanted, const IdOf& id_of, Workers& workers) const;
  void sort_by_cell(int64_t count, int64_t stride) const;
  void move_centre(int64_t cell, int worker) const;
  void pack_classes(Workers& workers) const;
  void search(int64_t block, int worker) const;
  void sort_lists() const;
  ClassRange classes_of(int64_t cell, bool own_cell, int64_t around) const;

  const KnnCellsShape& shape_;
  const KnnCellsLayout at_;
  KnnShares& shares_;
  const Isa isa_;
  std::byte* const base_;
  const KnnRows rows_;
  int32_t* const neighbours_;
  const Permutation sample_;
};

void Build::pack_centres(Workers& workers) const {
  workers.for_each(align_up(at_.cells, kPanel) / kPanel, [&](int64_t panel, int worker) {
    float* zeros = own<float>(worker, at_.direction);
    std::fill_n(zeros, at_.dim_padded, 0.0F);
    for (int64_t lane = 0; lane < kPanel; ++lane) {
      const int64_t cell = panel * kPanel + lane;
      knn_pack_f32(cell < at_.cells ? centre(cell) : zeros, at_.dim_padded, lane,
                   part<uint32_t>(at_.centre_panels) + panel * kPanel * at_.dim_padded);
    }
  });
}

// Finds the `wanted` nearest cells of `count` classes and writes them to probed[count][wanted], the nearest first.
template <typename IdOf>
Status Build::find_cells(int64_t count, int64_t wanted, const IdOf& id_of, Workers& workers) const {
  for_own_blocks(count, workers, [&](int64_t block, int worker) {
    const int64_t first = block * kRows;
    const int64_t rows = std::min(kRows, count - first);
    KnnBlockSearch search = searcher(worker, wanted);
    search.clear(rows);
    int32_t* all = own<int32_t>(worker, at_.rows);
    std::iota(all, all + rows, 0);
    for (int64_t i = 0; i < rows; ++i) {
      rows_.direction(id_of(first + i), search.put(i, -1));
    }
    search.compare({all, static_cast<size_t>(rows)}, {part<uint32_t>(at_.centre_panels)}, {0, at_.cells});
    for (int64_t i = 0; i < rows; ++i) {
      int32_t* out = part<int32_t>(at_.probed) + (first + i) * wanted;
      for (const uint64_t key : search.best(i)) {
        *out++ = knn_id(key);
      }
    }
  });
  return gather(part<int32_t>(at_.probed), count, wanted);
}

// Sorts the classes by cell. The cell of class i is probed[i · stride]. `order` becomes the classes 0 .. count - 1,
// ascending within a cell, and `starts` the place where each cell begins.
void Build::sort_by_cell(int64_t count, int64_t stride) const {
  const int32_t* cells = part<int32_t>(at_.probed);
  int32_t* starts = part<int32_t>(at_.starts);
  int32_t* order = part<int32_t>(at_.order);
  std::fill_n(starts, at_.cells + 1, 0);
  for (int64_t i = 0; i < count; ++i) {
    ++starts[cells[i * stride] + 1];
  }
  std::partial_sum(starts, starts + at_.cells + 1, starts);
  for (int64_t i = 0; i < count; ++i) {
    order[starts[cells[i * stride]]++] = static_cast<int32_t>(i);
  }
  std::copy_backward(starts, starts + at_.cells, starts + at_.cells + 1);
  starts[0] = 0;
}

// Moves the centre of a cell to the direction of the sum of its classes. The centre stays if the cell has no class, or
// if the classes cancel out.
void Build::move_centre(int64_t cell, int worker) const {
  double* sums = own<double>(worker, at_.sums);
  float* direction = own<float>(worker, at_.direction);
  std::fill_n(sums, at_.dim, 0.0);
  for (int64_t i = part<int32_t>(at_.starts)[cell]; i < part<int32_t>(at_.starts)[cell + 1]; ++i) {
    rows_.direction(sampled(part<int32_t>(at_.order)[i]), direction);
    for (int64_t d = 0; d < at_.dim; ++d) {
      sums[d] += static_cast<double>(direction[d]);
    }
  }
  double squares = 0;
  for (int64_t d = 0; d < at_.dim; ++d) {
    squares += sums[d] * sums[d];
  }
  for (int64_t d = 0; d < at_.dim && squares > 0; ++d) {
    centre(cell)[d] = static_cast<float>(sums[d] / std::sqrt(squares));
  }
}

Status Build::find_centres(Workers& workers) {
  workers.for_each(at_.cells, [&](int64_t cell, int) {
    std::fill_n(centre(cell), at_.dim_padded, 0.0F);
    rows_.direction(sampled(cell), centre(cell));
  });
  for (int i = 0; i < kIterations; ++i) {
    pack_centres(workers);
    XRUN_TRY(find_cells(
        at_.sample, 1, [this](int64_t place) { return sampled(place); }, workers));
    sort_by_cell(at_.sample, 1);
    workers.for_each(at_.cells, [&](int64_t cell, int worker) { move_centre(cell, worker); });
  }
  pack_centres(workers);
  return {};
}

void Build::pack_classes(Workers& workers) const {
  workers.for_each(align_up(at_.classes, kPanel) / kPanel, [&](int64_t panel, int worker) {
    float* direction = own<float>(worker, at_.direction);
    for (int64_t lane = 0; lane < kPanel; ++lane) {
      const int64_t place = panel * kPanel + lane;
      std::fill_n(direction, at_.dim_padded, 0.0F);
      if (place < at_.classes) {
        rows_.direction(part<int32_t>(at_.order)[place], direction);
      }
      knn_pack_f32(direction, at_.dim_padded, lane, part<uint32_t>(at_.panels) + panel * kPanel * at_.dim_padded);
    }
  });
}

// Returns the places of the classes of a cell with which a class is compared. For a large cell these are only the
// places near `around` if the cell is the class's own, else the first places.
ClassRange Build::classes_of(int64_t cell, bool own_cell, int64_t around) const {
  const int32_t* starts = part<int32_t>(at_.starts) + cell;
  ClassRange places{starts[0], starts[1]};
  if (places.size() > at_.largest) {
    const int64_t middle = std::clamp(around - at_.largest / 2, places.begin, places.end - at_.largest);
    places.begin = own_cell ? middle : places.begin;
    places.end = places.begin + at_.largest;
  }
  return places;
}

// Makes the lists of a block of classes in the order of cells. If there is a single share, it writes a list at the
// index of its class; if there are several, at the place of the class in the order of cells.
void Build::search(int64_t block, int worker) const {
  const int64_t first = block * kRows;
  const int64_t count = std::min(kRows, at_.classes - first);
  const int32_t* ids = part<int32_t>(at_.order) + first;
  KnnBlockSearch search = searcher(worker, shape_.graph.found() - 1);
  search.clear(count);
  // Pairs of a cell and a row of the block, sorted by cell. Pairs of a row with its own cell come first, since these
  // give the best limits.
  constexpr uint64_t kNotOwn = uint64_t{1} << 63;
  constexpr int kCell = 16;  // lowest bit of the cell; the bits below hold the row
  uint64_t* wanted = own<uint64_t>(worker, at_.wanted);
  uint64_t* end = wanted;
  for (int64_t i = 0; i < count; ++i) {
    rows_.direction(ids[i], search.put(i, ids[i]));
    const int32_t* cells = part<int32_t>(at_.probed) + ids[i] * at_.probes;
    for (int64_t p = 0; p < at_.probes; ++p) {
      *end++ = (p == 0 ? 0 : kNotOwn) | static_cast<uint64_t>(cells[p]) << kCell | static_cast<uint64_t>(i);
    }
  }
  std::sort(wanted, end);
  int32_t* rows = own<int32_t>(worker, at_.rows);
  for (const uint64_t* next = wanted; next < end;) {
    const uint64_t cell = *next >> kCell;
    size_t n = 0;
    for (; next < end && *next >> kCell == cell; ++next) {
      rows[n++] = static_cast<int32_t>(*next & ((1U << kCell) - 1));
    }
    const bool own_cell = (*(next - 1) & kNotOwn) == 0;
    const auto number = static_cast<int64_t>(cell & ~(kNotOwn >> kCell));
    const ClassRange places = classes_of(number, own_cell, first);
    search.compare({rows, n}, {part<uint32_t>(at_.panels), part<int32_t>(at_.order)}, places);
    *own<int64_t>(worker, at_.compared) += static_cast<int64_t>(n) * places.size();
  }
  for (int64_t i = 0; i < count; ++i) {
    int32_t* list = neighbours_ + (shares_.count() == 1 ? ids[i] : first + i) * shape_.graph.neighbours;
    int32_t* const list_end = list + shape_.graph.neighbours;
    *list++ = ids[i];
    for (const uint64_t key : search.best(i)) {
      *list++ = knn_id(key);
    }
    std::fill(list, list_end, -1);
  }
}

// Moves each list from its place in the order of cells to the index of its class. It follows the cycles of the order,
// and destroys the order.
void Build::sort_lists() const {
  int32_t* order = part<int32_t>(at_.order);
  const auto list = [&](int64_t place) { return neighbours_ + place * shape_.graph.neighbours; };
  for (int64_t place = 0; place < at_.classes; ++place) {
    while (order[place] != place) {
      const int32_t to = order[place];
      std::swap_ranges(list(place), list(place + 1), list(to));
      std::swap(order[place], order[to]);
    }
  }
}

Result<KnnCellsReport> Build::run(Workers& workers) {
  for (int worker = 0; worker < shape_.graph.workers; ++worker) {
    *own<int64_t>(worker, at_.compared) = 0;
  }
  workers.for_each(blocks_of(at_.classes), [&](int64_t block, int) {
    for (int64_t c = block * kRows; c < std::min(at_.classes, (block + 1) * kRows); ++c) {
      part<float>(at_.inverse)[c] = knn_inverse(rows_.weight + c * at_.dim, at_.dim);
    }
  });
  XRUN_TRY(find_centres(workers));
  XRUN_TRY(find_cells(
      at_.classes, at_.probes, [](int64_t c) { return c; }, workers));
  sort_by_cell(at_.classes, at_.probes);
  pack_classes(workers);
  for_own_blocks(at_.classes, workers, [&](int64_t block, int worker) { search(block, worker); });
  if (shares_.count() > 1) {
    XRUN_TRY(gather(neighbours_, at_.classes, shape_.graph.neighbours));
    sort_lists();
  }
  KnnCellsReport report;
  for (int worker = 0; worker < shape_.graph.workers; ++worker) {
    report.compared += *own<int64_t>(worker, at_.compared);
  }
  return report;
}

}  // namespace

KnnCells::KnnCells(const KnnCellsShape& shape, Isa isa) : shape_(shape), isa_(isa) {
  const KnnShape& graph = shape.graph;
  XRUN_CHECK(graph.classes > 0 && graph.classes <= std::numeric_limits<int32_t>::max() && graph.dim > 0 &&
                 graph.neighbours > 0 && graph.workers > 0 && shape.probes > 0,
             "a graph of neighbours has a shape");
}

Bytes KnnCells::scratch_bytes() const { return KnnCellsLayout(shape_).total; }

KnnCellsReport KnnCells::build(const float* weight, int32_t* neighbours, std::byte* scratch, Workers& workers) const {
  KnnShares whole;
  return build(weight, neighbours, scratch, workers, whole).value();
}

Result<KnnCellsReport> KnnCells::build(const float* weight, int32_t* neighbours, std::byte* scratch, Workers& workers,
                                       KnnShares& shares) const {
  XRUN_CHECK(workers.count() <= shape_.graph.workers, "more workers than slices");
  return Build(shape_, isa_, weight, neighbours, scratch, shares).run(workers);
}

}  // namespace xrun::ops
