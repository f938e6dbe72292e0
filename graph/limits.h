// The largest tensors of a graph. A larger tensor is rejected where it would be made, so that every size fits 64 bits
// as a product of dimensions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xrun {

// The largest number of elements of one sample, and of a weight: more than any machine can store.
inline constexpr int64_t kMostElementsOfSample = int64_t{1} << 36;
inline constexpr int64_t kMostElementsOfWeight = int64_t{1} << 50;
// The largest number of dimensions: more than any operator needs. Loops over dimensions keep their counters in arrays
// of this size.
inline constexpr size_t kMostDims = 12;

}  // namespace xrun
