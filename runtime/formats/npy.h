// NumPy's .npy files, as far as results are written in them (docs/formats.md, "Embeddings").
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/base/result.h"

namespace xrun::runtime {

// Writes f32 [rows, columns], version 1.0, data at a multiple of 64 bytes. Errors: kWorld with the path.
Status write_npy(const std::string& path, std::span<const float> values, int64_t rows, int64_t columns);

}  // namespace xrun::runtime
