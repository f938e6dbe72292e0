// The search compares blocks of classes with each other. Each block is first compared with itself, which gives every
// class an initial limit. Then each pair of blocks is compared once, and a score is offered to the lists of both
// classes. The pairs are divided into rounds as in a tournament: a block occurs once in a round, so the workers of a
// round write to different classes, and each class meets the others in the same order for every number of workers. If
// there are several shares, each does this with its own blocks. It then compares each of its blocks with the blocks of
// the other shares; the limits of their classes are so high that no score reaches them, so only its own lists change.
//
// In bf16 the error of a score is at most a bound that follows from the rounding of the rows. The K nearest classes are
// among the classes whose score is at most twice this bound below the K-th best score. These are the candidates; they
// are ranked by exact scores. If a class has more candidates than fit into its list, it is searched again in f32, in
// which scores are exact.
#include "ops/knn/knn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "graph/base/errors.h"
#include "ops/head/loops/kernels.h"
#include "ops/knn/candidates.h"
#include "ops/knn/exact_search.h"
#include "ops/knn/rows.h"
#include "ops/knn/scan.h"

namespace xrun::ops {
namespace {

constexpr int64_t kPanel = kKnnPanel;  // classes in a panel
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The state of a build that all its workers share.
class Build {
 public:
  Build(const KnnShape& shape, Isa isa, const float* weight, int32_t* neighbours, std::byte* scratch, KnnShares& shares)
      : shape_(shape),
        at_(shape, has_native_bf16(isa)),
        shares_(shares),
        own_(shares.own(at_.blocks)),
        kernels_(head_kernels(isa, at_.pairs)),
        exact_kernels_(head_kernels(isa, false)),
        scan_(knn_scan(isa)),
        base_(scratch),
        rows_{weight, part<float>(at_.inverse), shape.dim},
        candidates_{part<uint64_t>(at_.keys), part<int32_t>(at_.counts), part<float>(at_.limits), at_.capacity,
                    shape.found() - 1},
        neighbours_(neighbours) {}

  Result<KnnReport> run(Workers& workers);

 private:
  template <typename T>
  T* part(Bytes offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  KnnSlice slice(int worker) const {
    const Bytes start = at_.workers + worker * at_.slice;
    return {part<float>(start + at_.tile),      part<int32_t>(start + at_.hits),
            part<float>(start + at_.direction), part<KnnRounding>(start + at_.rounding),
            part<uint32_t>(start + at_.left),   part<uint32_t>(start + at_.right)};
  }
  int64_t first_of(int64_t block) const { return block * at_.block; }
  int64_t end_of(int64_t block) const { return std::min(first_of(block) + at_.block, shape_.classes); }
  uint32_t* panels_of(int64_t block) const { return part<uint32_t>(at_.panels) + first_of(block) * at_.steps; }
  float* no_limits() const { return part<float>(at_.limits) + at_.blocks * at_.block; }

  bool is_own(int64_t block) const { return block >= own_.begin && block < own_.end; }
  // Calls body(block, slice) for the blocks of this share.
  template <typename Body>
  void for_own(Workers& workers, const Body& body) const {
    workers.for_each(own_.size(), [&](int64_t i, int worker) { body(own_.begin + i, slice(worker)); });
  }

  void prepare(int64_t block, const KnnSlice& s) const;
  void seed(int64_t row, const float* scores) const;
  void search_within(int64_t block, const KnnSlice& s) const;
  void search_between(int64_t a, int64_t b, const KnnSlice& s) const;
  void search_pairs(Workers& workers) const;
  void offer_to_both(int64_t top, int64_t end_of_rows, int64_t left, int64_t end_of_columns, const float* z,
                     int32_t* places) const;
  void rank(int64_t block, const KnnSlice& s) const;

  const KnnShape& shape_;
  const KnnLayout at_;
  KnnShares& shares_;
  const BlockRange own_;
  const HeadKernels& kernels_;
  const HeadKernels& exact_kernels_;
  const KnnScan scan_;
  std::byte* const base_;
  const KnnRows rows_;
  KnnCandidates candidates_;
  int32_t* const neighbours_;
};

// Computes the inverse norms and the packed rows of a block, and empties its lists.
void Build::prepare(int64_t block, const KnnSlice& s) const {
  uint32_t* panels = panels_of(block);
  std::fill_n(s.direction, at_.dim_padded, 0.0F);
  for (int64_t c = first_of(block); c < first_of(block) + at_.block; ++c) {
    const int64_t lane = c % kPanel;
    uint32_t* panel = panels + (c - first_of(block) - lane) * at_.steps;
    if (c >= shape_.classes) {
      candidates_.limits[c] = kInfinity;
      for (int64_t i = 0; i < at_.steps; ++i) {
        panel[i * kPanel + lane] = 0;
      }
      continue;
    }
    part<float>(at_.inverse)[c] = knn_inverse(rows_.weight + c * shape_.dim, shape_.dim);
    rows_.direction(c, s.direction);
    if (at_.pairs) {
      s.rounding->take(knn_pack_pairs(s.direction, at_.dim_padded, lane, panel));
    } else {
      knn_pack_f32(s.direction, at_.dim_padded, lane, panel);
    }
    candidates_.clear(c);
    if (!is_own(block)) {
      candidates_.limits[c] = kInfinity;
    }
  }
}

// Sets the initial limit of a class from its scores with a block. The block is divided into at least 2 · wanted groups;
// the limit is the wanted-th largest of the groups' best scores. So at least `wanted` classes have this score or a
// larger one.
void Build::seed(int64_t row, const float* scores) const {
  std::array<float, kKnnBlock> best;
  const int64_t groups = std::min(align_up(2 * candidates_.wanted, 64), at_.block);
  if (candidates_.wanted > groups) {
    return;
  }
  std::copy_n(scores, groups, best.begin());
  for (int64_t i = groups; i < at_.block; i += 64) {
    float* to = best.data() + i % groups;
    for (int64_t j = 0; j < 64; ++j) {
      to[j] = std::max(to[j], scores[i + j]);
    }
  }
  const auto last = best.begin() + candidates_.wanted - 1;
  std::nth_element(best.begin(), last, best.begin() + groups, std::greater<>());
  candidates_.seed(row, *last);
}

void Build::search_within(int64_t block, const KnnSlice& s) const {
  const int64_t first = first_of(block);
  const int64_t count = end_of(block) - first;
  for (int64_t top = 0; top < count; top += kPanel) {
    knn_multiply(kernels_, panels_of(block) + top * at_.steps, panels_of(block), at_.block / kPanel, at_.steps,
                 at_.stride, s.tile);
    for (int64_t r = top; r < std::min(top + kPanel, count); ++r) {
      float* scores = s.tile + (r - top) * at_.stride;
      scores[r] = -kInfinity;  // excludes the class itself
      std::fill(scores + count, scores + at_.block, -kInfinity);
      seed(first + r, scores);
    }
    for (int64_t left = 0; left < count; left += kPanel) {
      const float* z = s.tile + left;
      const int64_t hits = scan_(z, at_.stride, candidates_.limits + first + top, no_limits(), s.hits);
      for (int64_t i = 0; i < hits; ++i) {
        const int64_t r = s.hits[i] / kPanel;
        const int64_t c = s.hits[i] % kPanel;
        const int64_t row = first + top + r;
        const float score = z[r * at_.stride + c];
        if (score >= candidates_.limits[row] && score > -kInfinity) {
          candidates_.offer(row, score, static_cast<int32_t>(first + left + c));
        }
      }
    }
  }
}

void Build::search_between(int64_t a, int64_t b, const KnnSlice& s) const {
  // The product of two panels stays in the first-level cache with its operands, so one panel is multiplied at a time.
  // AMX prepares the left side again in each call, so there all panels are multiplied in one call.
  const int64_t panels = &kernels_ == &kHeadAmx ? at_.block / kPanel : 1;
  for (int64_t right = first_of(b); right < end_of(b); right += panels * kPanel) {
    for (int64_t top = first_of(a); top < end_of(a); top += kPanel) {
      knn_multiply(kernels_, panels_of(a) + (top - first_of(a)) * at_.steps,
                   panels_of(b) + (right - first_of(b)) * at_.steps, panels, at_.steps, at_.stride, s.tile);
      for (int64_t left = right; left < std::min(right + panels * kPanel, end_of(b)); left += kPanel) {
        offer_to_both(top, end_of(a), left, end_of(b), s.tile + (left - right), s.hits);
      }
    }
  }
}

// Offers the scores of a tile to the classes of its rows, which begin with `top`, and of its columns, which begin with
// `left`.
void Build::offer_to_both(int64_t top, int64_t end_of_rows, int64_t left, int64_t end_of_columns, const float* z,
                          int32_t* places) const {
  const float* limits = candidates_.limits;
  const int64_t hits = scan_(z, at_.stride, limits + top, limits + left, places);
  for (int64_t i = 0; i < hits; ++i) {
    const int64_t row = top + places[i] / kPanel;
    const int64_t column = left + places[i] % kPanel;
    const float score = z[(row - top) * at_.stride + column - left];
    if (row >= end_of_rows || column >= end_of_columns) {
      continue;
    }
    if (score >= limits[row]) {
      candidates_.offer(row, score, static_cast<int32_t>(column));
    }
    if (score >= limits[column]) {
      candidates_.offer(column, score, static_cast<int32_t>(row));
    }
  }
}

void Build::search_pairs(Workers& workers) const {
  // Forms rounds of pairs by the circle method: blocks 0 .. n - 2 rotate, and block n - 1 stays. For an odd number of
  // blocks, block n - 1 is empty.
  const int64_t n = own_.size() + own_.size() % 2;
  for (int64_t round = 0; round + 1 < n; ++round) {
    workers.for_each(n / 2, [&](int64_t pair, int worker) {
      const int64_t a = pair == 0 ? n - 1 : (round + n - 1 - pair) % (n - 1);
      const int64_t b = (round + pair) % (n - 1);
      if (a < own_.size()) {
        search_between(own_.begin + a, own_.begin + b, slice(worker));
      }
    });
  }
  if (own_.size() < at_.blocks) {
    for_own(workers, [&](int64_t block, const KnnSlice& s) {
      for (int64_t other = 0; other < at_.blocks; ++other) {
        if (!is_own(other)) {
          search_between(block, other, s);
        }
      }
    });
  }
}

void Build::rank(int64_t block, const KnnSlice& s) const {
  for (int64_t row = first_of(block); row < end_of(block); ++row) {
    uint64_t* keys = candidates_.keys + row * at_.capacity;
    candidates_.shrink(row);
    const int64_t count = candidates_.counts[row];
    rows_.direction(row, s.direction);
    rows_.rescore(s.direction, keys, count);
    std::partial_sort(keys, keys + candidates_.wanted, keys + count);
    int32_t* list = neighbours_ + row * shape_.neighbours;
    *list++ = static_cast<int32_t>(row);
    for (int64_t i = 0; i < candidates_.wanted; ++i) {
      *list++ = knn_id(keys[i]);
    }
    std::fill_n(list, shape_.neighbours - shape_.found(), -1);
  }
}

Result<KnnReport> Build::run(Workers& workers) {
  for (int worker = 0; worker < shape_.workers; ++worker) {
    *slice(worker).rounding = {};
  }
  std::fill_n(no_limits(), at_.block, kInfinity);
  workers.for_each(at_.blocks, [&](int64_t block, int worker) { prepare(block, slice(worker)); });
  if (at_.pairs) {
    KnnRounding rounding;
    for (int worker = 0; worker < shape_.workers; ++worker) {
      rounding.take(*slice(worker).rounding);
    }
    candidates_.slack = static_cast<float>(2 * rounding.error(shape_.dim));
  }
  KnnReport report;
  if (candidates_.wanted > 0) {
    for_own(workers, [&](int64_t block, const KnnSlice& s) { search_within(block, s); });
    search_pairs(workers);
    int32_t* again = part<int32_t>(at_.again);
    for (int64_t c = first_of(own_.begin); c < first_of(own_.end) && c < shape_.classes; ++c) {
      if (candidates_.counts[c] == KnnCandidates::kOverflow) {
        again[report.searched_again++] = static_cast<int32_t>(c);
      }
    }
    const int64_t share = report.searched_again / shape_.workers + 1;
    const int64_t run = std::min(align_up(share, kPanel), kKnnAgain);
    const KnnExactSearch exact{at_, shape_.classes, exact_kernels_, scan_, rows_, no_limits()};
    workers.for_each((report.searched_again + run - 1) / run, [&](int64_t item, int worker) {
      const int64_t first = item * run;
      exact.search(again + first, std::min(run, report.searched_again - first), candidates_, slice(worker));
    });
  }
  for_own(workers, [&](int64_t block, const KnnSlice& s) { rank(block, s); });
  const auto list = static_cast<Bytes>(sizeof(int32_t)) * shape_.neighbours;
  XRUN_TRY(shares_.gather({reinterpret_cast<std::byte*>(neighbours_), static_cast<size_t>(shape_.classes * list)},
                          at_.block * list));
  return report;
}

}  // namespace

static_assert(sizeof(KnnRounding) == kKnnRoundingBytes);

KnnGraph::KnnGraph(const KnnShape& shape, Isa isa) : shape_(shape), isa_(isa) {
  XRUN_CHECK(shape.classes > 0 && shape.classes <= std::numeric_limits<int32_t>::max() && shape.dim > 0 &&
                 shape.neighbours > 0 && shape.workers > 0,
             "a graph of neighbours has a shape");
}

Bytes KnnGraph::scratch_bytes() const { return KnnLayout(shape_, has_native_bf16(isa_)).total; }

KnnReport KnnGraph::build(const float* weight, int32_t* neighbours, std::byte* scratch, Workers& workers) const {
  KnnShares whole;
  return build(weight, neighbours, scratch, workers, whole).value();
}

Result<KnnReport> KnnGraph::build(const float* weight, int32_t* neighbours, std::byte* scratch, Workers& workers,
                                  KnnShares& shares) const {
  XRUN_CHECK(workers.count() <= shape_.workers, "more workers than slices");
  return Build(shape_, isa_, weight, neighbours, scratch, shares).run(workers);
}

}  // namespace xrun::ops
