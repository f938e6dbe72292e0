// Stores the drawn characters of a font face on disk (graph/os/cache_file.h), so that only the first run draws them.
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

// Returns the path of a face's pictures in the cache. The file name contains a digest of everything that the pictures
// depend on, including the font file's path, size and time. Empty: there is no cache directory or no such file.
std::string glyph_cache_path(const std::string& font_path, const std::string& settings);

// Reads a drawn face. Returns nullopt if there is no such file, or if its bytes differ from those that were
// written.
std::optional<DrawnFace> load_drawn_face(const std::string& cache_path, int64_t picture_bytes);

// Stores a drawn face. Errors are ignored, since the next run can draw the face again.
void store_drawn_face(const std::string& cache_path, const DrawnFace& face);

}  // namespace xrun::runtime
