// Drawn faces on disk (runtime/cache_file.h), so that only the first run draws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace xrun::runtime {

// What one face gives: its characters in ascending order, and their pictures one after the other.
struct DrawnFace {
  std::vector<int32_t> codepoints;
  std::vector<uint8_t> pixels;
};

// Where the pictures of a face are kept: the name holds a digest of everything that they depend on, the font file's
// path, size and time included. Empty without a cache directory.
std::string glyph_cache_path(const std::string& font_path, const std::string& settings);

// Nothing when there is no such file, or when it is not byte for byte what was written.
std::optional<DrawnFace> load_drawn_face(const std::string& cache_path, int64_t picture_bytes);

// Best effort.
void store_drawn_face(const std::string& cache_path, const DrawnFace& face);

}  // namespace xrun::runtime
