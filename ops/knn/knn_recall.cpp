#include "ops/knn/knn_recall.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "graph/base/check.h"
#include "graph/base/random.h"
#include "graph/layouts/knn_cells_layout.h"
#include "ops/knn/block_search.h"
#include "ops/knn/rows.h"

namespace xrun::ops {
namespace {

constexpr uint64_t kSample = 0x6b6e6e72;  // separates these random numbers from random numbers for other purposes
constexpr int64_t kPacked = kKnnRecallPacked;
constexpr int64_t kRun = 4096;  // classes that a worker takes at once

}  // namespace

KnnRecall::KnnRecall(const KnnShape& shape, uint64_t seed, Isa isa) : shape_(shape), seed_(seed), isa_(isa) {}

Bytes KnnRecall::scratch_bytes() const { return KnnRecallLayout(shape_).total; }

double KnnRecall::measure(const float* weight, const int32_t* neighbours, std::byte* scratch, Workers& workers) const {
  KnnShares whole;
  return measure(weight, neighbours, scratch, workers, whole).value();
}

Result<double> KnnRecall::measure(const float* weight, const int32_t* neighbours, std::byte* scratch, Workers& workers,
                                  KnnShares& shares) const {
  XRUN_CHECK(workers.count() <= shape_.workers, "more workers than slices");
  const KnnRecallLayout at(shape_);
  if (at.wanted == 0) {
    return 1;
  }
  const Permutation sample(static_cast<uint64_t>(shape_.classes), seed_, kSample);
  const BlockRange own = shares.own(at.rows);
  const auto sampled = [&](int64_t i) { return static_cast<int32_t>(sample(static_cast<uint64_t>(own.begin + i))); };
  const auto part = [&]<typename T>(T, int worker, Bytes offset) {
    return reinterpret_cast<T*>(scratch + worker * at.slice + offset);
  };
  const auto inverse_of = [&](int64_t c) { return knn_inverse(weight + c * shape_.dim, shape_.dim); };
  const auto searcher = [&](int worker) {
    return KnnBlockSearch(isa_, shape_.dim, at.wanted, at.wanted, scratch + worker * at.slice + at.search);
  };
  // Every worker has a list for each row of the share, which contains the classes that this worker took.
  for (int worker = 0; worker < shape_.workers; ++worker) {
    KnnBlockSearch search = searcher(worker);
    search.clear(own.size());
    for (int64_t i = 0; i < own.size(); ++i) {
      const int32_t id = sampled(i);
      const float inverse = inverse_of(id);
      KnnRows{weight + id * shape_.dim, &inverse, shape_.dim}.direction(0, search.put(i, id));
    }
    int32_t* all = part(int32_t{}, worker, at.all);
    std::iota(all, all + own.size(), 0);
    std::fill_n(part(float{}, worker, at.direction), at.dim_padded, 0.0F);
  }
  workers.for_each((shape_.classes + kRun - 1) / kRun, [&](int64_t run, int worker) {
    KnnBlockSearch search = searcher(worker);
    int32_t* ids = part(int32_t{}, worker, at.ids);
    float* inverse = part(float{}, worker, at.inverse);
    float* direction = part(float{}, worker, at.direction);
    uint32_t* panels = part(uint32_t{}, worker, at.panels);
    const int64_t end = std::min(shape_.classes, (run + 1) * kRun);
    for (int64_t first = run * kRun; first < end; first += kPacked) {
      const int64_t count = std::min(kPacked, end - first);
      const KnnRows rows{weight + first * shape_.dim, inverse, shape_.dim};
      for (int64_t i = 0; i < count; ++i) {
        ids[i] = static_cast<int32_t>(first + i);
        inverse[i] = inverse_of(first + i);
        rows.direction(i, direction);
        knn_pack_f32(direction, at.dim_padded, i % kKnnPanel, panels + i / kKnnPanel * kKnnPanel * at.dim_padded);
      }
      search.compare({part(int32_t{}, worker, at.all), static_cast<size_t>(own.size())}, {panels, ids}, {0, count});
    }
  });

  int32_t* const found = part(int32_t{}, 0, at.all);  // [rows]; reuses memory that the search no longer needs
  for (int64_t i = 0; i < own.size(); ++i) {
    auto* const best = reinterpret_cast<uint64_t*>(scratch + at.best);
    uint64_t* end = best;
    for (int worker = 0; worker < shape_.workers; ++worker) {
      end = std::ranges::copy(searcher(worker).best(i), end).out;
    }
    std::sort(best, end);
    const int32_t* list = neighbours + int64_t{sampled(i)} * shape_.neighbours;
    const auto hits = std::count_if(best, best + at.wanted, [&](uint64_t key) {
      return std::find(list + 1, list + shape_.neighbours, knn_id(key)) != list + shape_.neighbours;
    });
    found[own.begin + i] = static_cast<int32_t>(hits);
  }
  XRUN_TRY(shares.gather(std::as_writable_bytes(std::span(found, static_cast<size_t>(at.rows))), sizeof(int32_t)));
  const auto all = std::accumulate(found, found + at.rows, int64_t{0});
  return static_cast<double>(all) / static_cast<double>(at.rows * at.wanted);
}

}  // namespace xrun::ops
