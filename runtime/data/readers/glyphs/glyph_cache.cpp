// Content of a file: "xrunGLY1", u64 count, count x i32 code points, count pictures.
#include "runtime/data/readers/glyphs/glyph_cache.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>
#include <sys/stat.h>

#include "graph/os/cache_file.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kMagic = "xrunGLY1";

}  // namespace

std::string glyph_cache_path(const std::string& font_path, const std::string& settings) {
  struct stat info {};
  if (::stat(font_path.c_str(), &info) != 0) {
    return "";
  }
  return path_in_cache("glyphs", fmt::format("{}|{}|{}.{}|{}", font_path, info.st_size, info.st_mtim.tv_sec,
                                             info.st_mtim.tv_nsec, settings));
}

std::optional<DrawnFace> load_drawn_face(const std::string& cache_path, int64_t picture_bytes) {
  auto file = CachedFile::open(cache_path);
  std::array<char, 8> magic{};
  uint64_t count = 0;
  if (!file || !file->read(std::as_writable_bytes(std::span(magic))) || !std::ranges::equal(magic, kMagic) ||
      !file->read(std::as_writable_bytes(std::span(&count, 1)))) {
    return std::nullopt;
  }
  // Checks the count against the size of the file, before memory is allocated for it.
  const auto each = sizeof(int32_t) + static_cast<uint64_t>(picture_bytes);
  if (count > 0x110000 || magic.size() + sizeof count + count * each != static_cast<uint64_t>(file->size())) {
    return std::nullopt;
  }
  DrawnFace face;
  face.codepoints.resize(count);
  face.pixels.resize(count * static_cast<uint64_t>(picture_bytes));
  if (!file->read(std::as_writable_bytes(std::span(face.codepoints))) ||
      !file->read(std::as_writable_bytes(std::span(face.pixels))) || !file->intact()) {
    return std::nullopt;
  }
  return face;
}

void store_drawn_face(const std::string& cache_path, const DrawnFace& face) {
  const uint64_t count = face.codepoints.size();
  store_cached(cache_path, {std::as_bytes(std::span(kMagic)), std::as_bytes(std::span(&count, 1)),
                            std::as_bytes(std::span(face.codepoints)), std::as_bytes(std::span(face.pixels))});
}

}  // namespace xrun::runtime
