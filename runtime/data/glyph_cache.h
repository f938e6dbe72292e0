// Drawn faces on disk (graph/base/cache_file.h), so that only the first run draws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace xrun::runtime {

// The characters of one face in ascending order, and their pictures one after the other.
struct DrawnFace {
  std::vector<int32_t> codepoints;
  std::vector<uint8_t> pixels;
};

// The path of a face's pictures in the cache. Its name holds a digest of everything that they depend on, including the
// font file's path, size and time. Empty without a cache directory, or if there is no such font file.
std::string glyph_cache_path(const std::string& font_path, const std::string& settings);

// Reads a drawn face; nothing if there is no such file, or if it is not byte for byte what was written.
std::optional<DrawnFace> load_drawn_face(const std::string& cache_path, int64_t picture_bytes);

// Stores the face if it can; errors are ignored.
void store_drawn_face(const std::string& cache_path, const DrawnFace& face);

}  // namespace xrun::runtime
