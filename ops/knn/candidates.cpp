#include "ops/knn/candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace xrun::ops {

uint64_t knn_key(float score, int32_t id) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // turns -0 into 0
  const uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return uint64_t{~ascending} << 32 | static_cast<uint32_t>(id);
}

float knn_score(uint64_t key) {
  const auto ascending = ~static_cast<uint32_t>(key >> 32);
  return std::bit_cast<float>((ascending & 0x80000000U) != 0 ? ascending & 0x7FFFFFFFU : ~ascending);
}

void KnnCandidates::clear(int64_t row) const {
  counts[row] = 0;
  limits[row] = wanted > 0 ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
}

void KnnCandidates::seed(int64_t row, float score) const {
  // If scores are exact, the limit is set just below `score`. So only `shrink` sets a limit that an exact score can
  // equal.
  limits[row] = slack > 0 ? score - slack : std::nextafter(score, -2.0F);
}

void KnnCandidates::offer(int64_t row, float score, int32_t id) const {
  uint64_t* list = keys + row * capacity;
  int32_t& count = counts[row];
  const uint64_t key = knn_key(score, id);
  // If the list was shrunk, its entry wanted - 1 is the worst neighbour so far, so a score equal to the limit also
  // needs a smaller id.
  if (slack == 0 && score == limits[row] && count >= wanted && key > list[wanted - 1]) {
    return;
  }
  list[count++] = key;
  if (count == capacity) {
    shrink(row);
    // A list that is nearly full counts as overflowed, since shrinking it again and again would cost as much as many
    // products.
    if (slack > 0 && count > capacity - capacity / 8) {
      count = kOverflow;
      limits[row] = std::numeric_limits<float>::infinity();
    }
  }
}

void KnnCandidates::shrink(int64_t row) const {
  uint64_t* list = keys + row * capacity;
  int32_t& count = counts[row];
  if (wanted == 0 || count < wanted) {
    return;
  }
  std::nth_element(list, list + wanted - 1, list + count);
  const float limit = knn_score(list[wanted - 1]) - slack;
  limits[row] = std::max(limits[row], limit);
  if (slack == 0) {
    count = static_cast<int32_t>(wanted);
    return;
  }
  const uint64_t last = knn_key(limits[row], std::numeric_limits<int32_t>::max());
  count = static_cast<int32_t>(std::partition(list + wanted, list + count, [last](uint64_t k) { return k <= last; }) -
                               list);
}

}  // namespace xrun::ops
