// Random operands of instructions.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "tests/ptx/kernels.h"

namespace xrun::ptx {

// Operands of each instruction; XRUN_PTX_OPERANDS sets another number. Sanitizers make the check ten times slower.
inline size_t operands_of_a_case() {
  const char* const wanted = std::getenv("XRUN_PTX_OPERANDS");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kUsual = 20'000;
#else
  constexpr size_t kUsual = 1'000'000;
#endif
  return wanted == nullptr ? kUsual : std::strtoull(wanted, nullptr, 10);
}

// Half of the operands are random bits. The others are small, or near the ends of integers and of floating-point
// numbers of 16, 32 and 64 bits.
inline uint64_t random_operand(std::mt19937_64& random, int bits) {
  static constexpr uint64_t kSpecial[] = {0,
                                          1,
                                          0x7f,
                                          0x80,
                                          0x7fff,
                                          0x8000,
                                          0x3f80,
                                          0x7f80,
                                          0x3f800000,
                                          0x00800000,
                                          0x007fffff,
                                          0x7f800000,
                                          0x7fc00000,
                                          0x7f7fffff,
                                          0x7fffffff,
                                          0x80000000,
                                          0x4f000000,
                                          0x3ff0000000000000,
                                          0x7ff0000000000000,
                                          0x0010000000000000,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0x43e0000000000000,
                                          0x3c00,
                                          0x7c00};
  switch (random() % 8) {
    case 0:
      return random() % 40;
    case 1:
      return uint64_t{0} - random() % 40;
    case 2:
      return kSpecial[random() % std::size(kSpecial)] ^ (random() % 2 << (bits - 1));
    case 3:
      return kSpecial[random() % std::size(kSpecial)] + random() % 8 - 4;
    default:
      return random();
  }
}

inline uint64_t low_bits(uint64_t value, int bits) { return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1); }

// The operands at one position, which all instructions of a width share.
inline const std::vector<uint64_t>& operands_of(size_t place, int bits) {
  static std::map<std::pair<size_t, int>, std::vector<uint64_t>> drawn;
  std::vector<uint64_t>& values = drawn[{place, bits}];
  if (values.empty()) {
    std::mt19937_64 random(kSeed + 100 * place + static_cast<uint64_t>(bits));
    values.resize((operands_of_a_case() + kLanes - 1) / kLanes * kLanes);
    std::ranges::generate(values, [&] { return low_bits(random_operand(random, bits), bits); });
  }
  return values;
}

}  // namespace xrun::ptx
