// Drawn faces on disk, so that only the first run draws: $XDG_CACHE_HOME/xrun/glyphs-DIGEST. A cache may vanish, be
// damaged or not be writable at any time; then faces are drawn again.
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

// Best effort: another name first, then renamed, so that readers never see a part.
void store_drawn_face(const std::string& cache_path, const DrawnFace& face);

}  // namespace xrun::runtime
