// Random numbers of a beta distribution, by counters.
#pragma once

#include <cstdint>

#include "graph/base/random.h"

namespace xrun::runtime {

// The number of blocks of the stream that draw_beta reads, from its first block on.
inline constexpr uint64_t kBetaBlocks = 512;

// Draws a number in [0, 1] of Beta(alpha, alpha), as G(1) / (G(1) + G(2)) of two numbers of a gamma distribution. They
// are drawn by the method of Marsaglia and Tsang, whose attempts are consecutive blocks of the stream; for alpha below
// 1 a number of alpha + 1 is multiplied by a power of a uniform one. Logarithms of the numbers are used, since a number
// of a small alpha may be below the range of f64. Threads: any. REQUIRES: 0 < alpha < infinity. Source: Marsaglia,
// Tsang, "A Simple Method for Generating Gamma Variables", ACM TOMS 26, 2000.
double draw_beta(double alpha, const RandomStream& stream, uint64_t first_block);

}  // namespace xrun::runtime
