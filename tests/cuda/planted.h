// Faults that tests plant in programs, and the search for them among the faults that the fake driver has found.
#pragma once

#include <algorithm>
#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "tests/cuda/fake_program.h"

namespace xrun::cuda {

inline constexpr uint64_t kSeeds = 6;  // each policy of the fake driver twice

inline std::string print(const std::vector<fake::Fault>& faults) {
  std::string text;
  for (const fake::Fault& fault : faults) {
    text += fault.print() + "\n";
  }
  return text;
}

// Expects a fault of a kind whose line has all of these parts.
inline void expect_fault(const std::vector<fake::Fault>& faults, fake::FaultKind kind,
                         const std::vector<std::string>& parts) {
  const bool found = std::ranges::any_of(faults, [&](const fake::Fault& fault) {
    const std::string line = fault.print();
    return fault.kind == kind &&
           std::ranges::all_of(parts, [&](const std::string& part) { return line.find(part) != std::string::npos; });
  });
  EXPECT_TRUE(found) << "expected: " << fake::name_of(kind) << " " << ::testing::PrintToString(parts) << "\nfound:\n"
                     << print(faults);
}

struct Planted {
  const char* name;
  fake::FaultKind kind;
  std::vector<std::string> parts;
  void (*program)(Program& at);
};

inline void run_planted(const std::vector<Planted>& table) {
  for (const Planted& planted : table) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SCOPED_TRACE(std::string(planted.name) + ", seed " + std::to_string(seed));
      Program at({.gpus = 2, .seed = seed});
      planted.program(at);
      expect_fault(at.finish(), planted.kind, planted.parts);
    }
  }
}

}  // namespace xrun::cuda
