// The values of a tensor before the first step (docs/internals/determinism.md, "Random numbers").
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/module.h"

namespace xrun::runtime {

// Fills `values`, the part of a tensor that starts at element `first`. Each value depends only on the seed, the name
// and the number of the element, so any part of a tensor can be filled on its own.
//   name  name of the tensor; for a renamed tensor its first name, so that renaming changes no values
void fill_initial_values(const Init& init, uint64_t seed, const std::string& name, uint64_t first,
                         std::span<float> values);

}  // namespace xrun::runtime
