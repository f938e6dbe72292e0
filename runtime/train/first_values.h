// The values of a tensor before the first step (docs/internals/determinism.md, "Random numbers").
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/module.h"

namespace xrun::runtime {

// Fills `values`, which are those of a tensor from element `first` on. They depend on the seed, the name and the number
// of each element alone, so any part of a tensor may be filled by itself.
//   name  of the tensor, or the first one that it had
void fill_first_values(const Init& init, uint64_t seed, const std::string& name, uint64_t first,
                       std::span<float> values);

}  // namespace xrun::runtime
