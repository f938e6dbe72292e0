// Memory for the operands of kernel benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/base/units.h"

namespace xrun::ops {

// Arrays filled with equal numbers and aligned to 64 bytes. They live as long as this object.
class BenchMemory {
 public:
  explicit BenchMemory(float number = 0) : number_(number) {}
  std::byte* take(Bytes size) {
    arrays_.emplace_back(static_cast<size_t>(size / 4 + 32), number_);
    return reinterpret_cast<std::byte*>(align_up(reinterpret_cast<int64_t>(arrays_.back().data()), 64));
  }

 private:
  float number_;
  std::vector<std::vector<float>> arrays_;
};

}  // namespace xrun::ops
