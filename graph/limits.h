// How large the tensors of a graph may be. What is beyond is refused where it would arise, so that sizes are products
// in 64 bits everywhere.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xrun {

// Elements of one sample, and of a weight: more than any machine holds.
inline constexpr int64_t kMostElementsOfSample = int64_t{1} << 36;
inline constexpr int64_t kMostElementsOfWeight = int64_t{1} << 50;
// More dimensions than any operator wants; loops over them keep their counters in place.
inline constexpr size_t kMostDims = 12;

}  // namespace xrun
