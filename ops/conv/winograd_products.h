// The matrix products between Winograd's transforms, one for each of the 36 points. Channels are in groups of sixteen,
// [group][tile][16]. Each output is one chain of fused multiply-adds, whose order does not depend on the number of
// tiles in a call.
#pragma once

#include <cstdint>

namespace xrun::ops::winograd {

inline constexpr int64_t kGroup = 16;  // channels in a vector
inline constexpr int64_t kPanel = 32;  // outputs of a panel of weights; the last panel may have only sixteen

// Computes to [out / 16][slots][16] = from [in / 16][slots][16] · weight, where the weight is panels [in][32]. `slots`
// is the number of tiles for which the arrays have space; only the first `tiles` of them are computed.
void apply(const float* from, const float* weight, float* to, int64_t tiles, int64_t slots, int64_t in, int64_t out);

// Adds an outer product to the weight gradient: to [out][in] += sum over tiles of dy [out / 16][slots][16] and x [in /
// 16][slots][16].
void add_outer(const float* x, const float* dy, float* to, int64_t tiles, int64_t slots, int64_t in, int64_t out);

}  // namespace xrun::ops::winograd
