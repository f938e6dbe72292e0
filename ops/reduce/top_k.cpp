#include "ops/reduce/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "graph/base/check.h"

namespace xrun::ops {
namespace {

constexpr int64_t kChunk = 1 << 16;  // elements in a chunk: a quarter MiB, which stays in a second-level cache
// The number of bits of a magnitude that each pass counts; together they are all 31 bits.
constexpr int kBits[] = {11, 10, 10};
constexpr int kBins = 1 << 11;

// Returns the bits of a magnitude as an integer, which has the same order. All NaN give the same number, the largest
// one.
uint32_t magnitude(float value) {
  constexpr uint32_t kFirstNan = 0x7F800001U;
  return std::min(std::bit_cast<uint32_t>(value) & 0x7FFFFFFFU, kFirstNan);
}

// The distance between the elements of a sample: a prime that does not divide the number of elements. So it does not
// divide the number of columns of a matrix either, and the sample has elements of every column.
int64_t stride_of(int64_t count) { return count % 61 != 0 ? 61 : 67; }

// Number of elements in one inner loop, because at -O2 the compiler vectorizes only loops of constant length.
constexpr int64_t kRun = 64;

uint32_t count_run(const float* values, uint32_t bound) {
  uint32_t above = 0;
  for (int64_t i = 0; i < kRun; ++i) {
    above += magnitude(values[i]) >= bound ? 1U : 0U;
  }
  return above;
}

int64_t chunks_of(int64_t count) { return (count + kChunk - 1) / kChunk; }

struct Whole {
  const float* values;
  int64_t count;
  float value(int64_t i) const { return values[i]; }
  int32_t index(int64_t i) const { return static_cast<int32_t>(i); }
};

struct Sample {
  const float* values;
  int64_t count;
  int64_t stride;
  float value(int64_t i) const { return values[i * stride]; }
};

struct Candidates {
  const GradientPair* pairs;
  int64_t count;
  float value(int64_t i) const { return pairs[i].value; }
  int32_t index(int64_t i) const { return pairs[i].index; }
};

}  // namespace

TopK::TopK(int64_t most, int workers, int64_t few)
    : bins_(static_cast<size_t>(workers) * kBins),
      chunks_(static_cast<size_t>(chunks_of(most))),
      candidates_(static_cast<size_t>(selects_by_sample(most, few) ? 2 * few : 0)) {}

// Returns the magnitude of the k-th largest element, where k is `left`, as far as the first `runs` entries of kBits
// determine its bits; the lower bits are 0. Sets `left` to the number of the k elements that have exactly these bits.
template <class View>
uint32_t TopK::find_kth(const View& view, int64_t& left, Workers& workers, size_t runs) {
  uint32_t found = 0;  // the bits above `shift`
  int shift = 31;
  for (const int bits : std::span(kBits).first(runs)) {
    const int above = shift;
    shift -= bits;
    const uint32_t bins = 1U << bits;
    std::ranges::fill(bins_, 0);
    const auto count_chunk = [&](int64_t chunk, int worker) {
      uint32_t* const own = bins_.data() + static_cast<size_t>(worker) * kBins;
      const int64_t end = std::min(view.count, (chunk + 1) * kChunk);
      for (int64_t i = chunk * kChunk; i < end; ++i) {
        const uint32_t bits_of = magnitude(view.value(i));
        if (above == 31 || bits_of >> above == found) {
          ++own[bits_of >> shift & (bins - 1)];
        }
      }
    };
    workers.for_each(chunks_of(view.count), count_chunk);
    uint32_t bin = bins;
    for (int64_t in_bin = 0;; left -= in_bin) {
      in_bin = 0;
      --bin;
      for (size_t first = bin; first < bins_.size(); first += kBins) {
        in_bin += bins_[first];
      }
      if (in_bin >= left) {
        break;
      }
    }
    found = found << bits | bin;
  }
  return found << shift;
}

template <class View>
void TopK::select_from(const View& view, int64_t k, GradientPair* pairs, Workers& workers) {
  const int64_t count = view.count;
  int64_t ties = k;
  const uint32_t kth = find_kth(view, ties, workers, std::size(kBits));
  const auto count_chunk = [&](int64_t chunk, int) {
    ChunkCounts counts;
    const int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) {
      const uint32_t bits = magnitude(view.value(i));
      counts.above += bits > kth ? 1 : 0;
      counts.equal += bits == kth ? 1 : 0;
    }
    chunks_[static_cast<size_t>(chunk)] = counts;
  };
  workers.for_each(chunks_of(count), count_chunk);
  // Elements that equal the k-th magnitude are taken from the first chunks that have any.
  int64_t place = 0;
  for (int64_t chunk = 0; chunk < chunks_of(count); ++chunk) {
    ChunkCounts& counts = chunks_[static_cast<size_t>(chunk)];
    const int64_t taken = std::min(counts.equal, ties);
    const int64_t first = place;
    ties -= taken;
    place += counts.above + taken;
    counts = {.above = first, .equal = taken};
  }
  const auto write_chunk = [&](int64_t chunk, int) {
    auto [at, equal] = chunks_[static_cast<size_t>(chunk)];
    const int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) {
      const uint32_t bits = magnitude(view.value(i));
      if (bits > kth || (bits == kth && equal-- > 0)) {
        pairs[at++] = {view.index(i), view.value(i)};
      }
    }
  };
  workers.for_each(chunks_of(count), write_chunk);
}

// Collects the elements that are at least as large as a certain element of the sample. The rank of that element is
// chosen so that, for a sample of unrelated values, fewer than k elements are found only once in a thousand times.
// Returns the number of elements, or 0 if they are fewer than k or more than fit.
int64_t TopK::find_candidates(const float* values, int64_t count, int64_t k, Workers& workers) {
  const int64_t stride = stride_of(count);
  const Sample sample{values, count / stride, stride};
  const double share = static_cast<double>(k) / static_cast<double>(stride);
  int64_t place = std::min(sample.count, static_cast<int64_t>(share + 3 * std::sqrt(share)) + 4);
  // 21 bits of the bound suffice. They save a pass over the sample, which takes as long as a pass over all values.
  const uint32_t bound = find_kth(sample, place, workers, 2);
  const auto count_chunk = [&](int64_t chunk, int) {
    int64_t above = 0;
    int64_t i = chunk * kChunk;
    const int64_t end = std::min(count, i + kChunk);
    for (; i + kRun <= end; i += kRun) {
      above += count_run(values + i, bound);
    }
    for (; i < end; ++i) {
      above += magnitude(values[i]) >= bound ? 1 : 0;
    }
    chunks_[static_cast<size_t>(chunk)].above = above;
  };
  workers.for_each(chunks_of(count), count_chunk);
  int64_t found = 0;
  for (int64_t chunk = 0; chunk < chunks_of(count); ++chunk) {
    found += std::exchange(chunks_[static_cast<size_t>(chunk)].above, found);
  }
  if (found < k || found > std::ssize(candidates_)) {
    return 0;
  }
  const auto write_chunk = [&](int64_t chunk, int) {
    GradientPair* next = candidates_.data() + chunks_[static_cast<size_t>(chunk)].above;
    const int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (int64_t run = chunk * kChunk; run < end; run += kRun) {
      if (run + kRun <= end && count_run(values + run, bound) == 0) {
        continue;  // the most frequent case
      }
      for (int64_t i = run; i < std::min(end, run + kRun); ++i) {
        if (magnitude(values[i]) >= bound) {
          *next++ = {static_cast<int32_t>(i), values[i]};
        }
      }
    }
  };
  workers.for_each(chunks_of(count), write_chunk);
  return found;
}

void TopK::select(const float* values, int64_t count, int64_t k, GradientPair* pairs, Workers& workers) {
  XRUN_DCHECK(k > 0 && k <= count && chunks_of(count) <= std::ssize(chunks_), "a selection that it is not made for");
  const bool is_few = selects_by_sample(count, k) && 2 * k <= std::ssize(candidates_);
  const int64_t candidates = is_few ? find_candidates(values, count, k, workers) : 0;
  if (candidates > 0) {
    select_from(Candidates{candidates_.data(), candidates}, k, pairs, workers);
  } else {
    select_from(Whole{values, count}, k, pairs, workers);
  }
}

}  // namespace xrun::ops
