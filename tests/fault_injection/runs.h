// Chooses the faults that a test tries. `make test` tries a few, drawn with a seed that is printed; `make test-faults`
// tries more, and `make test-faults-full` tries all of them.
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

// Returns XRUN_FAULT_RUNS, or `few` if the variable is not set; the result is at most `all`.
inline int64_t fault_runs(int64_t few, int64_t all) {
  const char* wish = std::getenv("XRUN_FAULT_RUNS");
  if (wish == nullptr) {
    return std::min(few, all);
  }
  return std::string_view(wish) == "all" ? all : std::min<int64_t>(all, std::atoll(wish));
}

// Returns numbers from 1 to `last`: all of them in ascending order, or a random choice of fault_runs(few, last) of
// them.
inline std::vector<int64_t> some_of(int64_t few, int64_t last) {
  std::vector<int64_t> numbers(static_cast<size_t>(last));
  std::iota(numbers.begin(), numbers.end(), 1);
  if (const int64_t runs = fault_runs(few, last); runs < last) {
    std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(fault_seed()));
    numbers.resize(static_cast<size_t>(runs));
  }
  return numbers;
}

// Returns the last step that a run reported as saved, from its lines "... checkpoint step=12 path=...".
inline int saved_step(const CommandResult& result) {
  const std::string mark = " checkpoint step=";
  const size_t at = result.err.rfind(mark);
  return at == std::string::npos ? 0 : std::stoi(result.err.substr(at + mark.size()));
}

}  // namespace xrun::testing
