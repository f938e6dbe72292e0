#include "runtime/data/augment/beta.h"

#include <cmath>
#include <numbers>

namespace xrun::runtime {
namespace {

// The stream of a gamma number has 127 attempts of two blocks each after its first block. An attempt fails with a
// probability below 0.05, so in practice one of them succeeds.
constexpr uint64_t kAttempts = 127;
constexpr uint64_t kBlocks = kBetaBlocks / 2;

// A uniform number in (0, 1) with 52 random bits.
double open_unit(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1.0p-52;
}

// The logarithm of a number of the gamma distribution with this shape, which is at least 1.
double log_gamma_from_one(double shape, const RandomStream& stream, uint64_t first_block) {
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (uint64_t i = 0; i < kAttempts; ++i) {
    const auto a = stream.block(first_block + 2 * i);
    const auto b = stream.block(first_block + 2 * i + 1);
    const double x =
        std::sqrt(-2 * std::log(open_unit(a[0], a[1]))) * std::cos(2 * std::numbers::pi * open_unit(a[2], a[3]));
    const double root = 1 + c * x;
    const double v = root * root * root;
    if (root > 0 && std::log(open_unit(b[0], b[1])) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return std::log(d * v);
    }
  }
  return std::log(d);
}

double log_gamma(double shape, const RandomStream& stream, uint64_t first_block) {
  if (shape >= 1) {
    return log_gamma_from_one(shape, stream, first_block + 1);
  }
  const auto power = stream.block(first_block);
  return log_gamma_from_one(shape + 1, stream, first_block + 1) + std::log(open_unit(power[0], power[1])) / shape;
}

}  // namespace

double draw_beta(double alpha, const RandomStream& stream, uint64_t first_block) {
  const double own = log_gamma(alpha, stream, first_block);
  const double other = log_gamma(alpha, stream, first_block + kBlocks);
  return 1 / (1 + std::exp(other - own));
}

}  // namespace xrun::runtime
