// How many faults a test tries, and which: some by a printed seed in `make test`, more in `make test-faults`, all in
// `make test-faults-full`.
//   XRUN_FAULT_RUNS=N    runs of each test; `all`: every one
//   XRUN_FAULT_SEED=N    another seed
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/command.h"

namespace xrun::testing {

inline uint64_t fault_seed(uint64_t otherwise = 12) {
  const char* chosen = std::getenv("XRUN_FAULT_SEED");
  const uint64_t seed = chosen == nullptr ? otherwise : std::strtoull(chosen, nullptr, 10);
  std::cout << "seed " << seed << "\n";
  return seed;
}

// `few` where nothing is asked for, and never more than `all`.
inline int64_t fault_runs(int64_t few, int64_t all) {
  const char* wish = std::getenv("XRUN_FAULT_RUNS");
  if (wish == nullptr) {
    return std::min(few, all);
  }
  return std::string_view(wish) == "all" ? all : std::min<int64_t>(all, std::atoll(wish));
}

// Numbers from 1 to `last`: all in their order, or as many as are asked for in any order.
inline std::vector<int64_t> some_of(int64_t few, int64_t last) {
  std::vector<int64_t> numbers(static_cast<size_t>(last));
  std::iota(numbers.begin(), numbers.end(), 1);
  if (const int64_t runs = fault_runs(few, last); runs < last) {
    std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(fault_seed()));
    numbers.resize(static_cast<size_t>(runs));
  }
  return numbers;
}

// The last step that a run has called saved: "... checkpoint step=12 path=...".
inline int saved_step(const CommandResult& result) {
  const std::string mark = " checkpoint step=";
  const size_t at = result.err.rfind(mark);
  return at == std::string::npos ? 0 : std::stoi(result.err.substr(at + mark.size()));
}

}  // namespace xrun::testing
