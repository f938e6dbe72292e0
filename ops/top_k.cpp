#include "ops/top_k.h"

#include <algorithm>
#include <bit>

#include "graph/base/check.h"

namespace xrun::ops {
namespace {

constexpr int64_t kChunk = 1 << 16;  // elements: a quarter MiB, which stays in a second-level cache
// The 31 bits of a magnitude in three runs.
constexpr int kBits[] = {11, 10, 10};
constexpr int kBins = 1 << 11;

// Ordered as the magnitudes are: the bits of a positive float are. All NaN are equal.
uint32_t magnitude(float value) {
  constexpr uint32_t kFirstNan = 0x7F800001U;
  return std::min(std::bit_cast<uint32_t>(value) & 0x7FFFFFFFU, kFirstNan);
}

int64_t chunks_of(int64_t count) { return (count + kChunk - 1) / kChunk; }

}  // namespace

TopK::TopK(int64_t most, int workers)
    : bins_(static_cast<size_t>(workers) * kBins), chunks_(static_cast<size_t>(chunks_of(most))) {}

// The magnitude of the k-th largest element, `left` being k; gives in `left` how many elements of just this magnitude
// are among the k.
uint32_t TopK::find_kth(const float* values, int64_t count, int64_t& left, Workers& workers) {
  uint32_t found = 0;  // the bits above `shift`
  int shift = 31;
  for (const int bits : kBits) {
    const int above = shift;
    shift -= bits;
    const uint32_t bins = 1U << bits;
    std::ranges::fill(bins_, 0);
    const auto count_chunk = [&](int64_t chunk, int worker) {
      uint32_t* const own = bins_.data() + static_cast<size_t>(worker) * kBins;
      const int64_t end = std::min(count, (chunk + 1) * kChunk);
      for (int64_t i = chunk * kChunk; i < end; ++i) {
        const uint32_t bits_of = magnitude(values[i]);
        if (above == 31 || bits_of >> above == found) {
          ++own[bits_of >> shift & (bins - 1)];
        }
      }
    };
    workers.for_each(chunks_of(count), count_chunk);
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
  return found;
}

void TopK::select(const float* values, int64_t count, int64_t k, GradientPair* pairs, Workers& workers) {
  XRUN_DCHECK(k > 0 && k <= count && chunks_of(count) <= std::ssize(chunks_), "a selection that it is not made for");
  int64_t ties = k;
  const uint32_t kth = find_kth(values, count, ties, workers);
  const auto count_chunk = [&](int64_t chunk, int) {
    ChunkCounts counts;
    const int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) {
      const uint32_t bits = magnitude(values[i]);
      counts.above += bits > kth ? 1 : 0;
      counts.equal += bits == kth ? 1 : 0;
    }
    chunks_[static_cast<size_t>(chunk)] = counts;
  };
  workers.for_each(chunks_of(count), count_chunk);
  // Those of equal magnitude go to the first chunks that have any.
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
      const uint32_t bits = magnitude(values[i]);
      if (bits > kth || (bits == kth && equal-- > 0)) {
        pairs[at++] = {static_cast<int32_t>(i), values[i]};
      }
    }
  };
  workers.for_each(chunks_of(count), write_chunk);
}

}  // namespace xrun::ops
