// File: "xrunGLY1", u64 count, count x i32 code points, count pictures, 32 hex digits of XXH3-128 over all before.
#include "runtime/data/glyph_cache.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/host.h"
#include "runtime/xxh128.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kMagic = "xrunGLY1";
constexpr size_t kDigestBytes = 32;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, CloseFile>;

template <typename T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

bool read_all(std::FILE* file, std::span<std::byte> out, Xxh128& hash) {
  if (std::fread(out.data(), 1, out.size(), file) != out.size()) {
    return false;
  }
  hash.add(out);
  return true;
}

bool write_all(std::FILE* file, std::span<const std::byte> bytes, Xxh128& hash) {
  hash.add(bytes);
  return std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
}

}  // namespace

std::string glyph_cache_path(const std::string& font_path, const std::string& settings) {
  const std::string directory = cache_directory();
  struct stat info {};
  if (directory.empty() || ::stat(font_path.c_str(), &info) != 0) {
    return "";
  }
  const std::string key =
      fmt::format("{}|{}|{}.{}|{}", font_path, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, settings);
  return fmt::format("{}/glyphs-{}", directory, xxh128(std::as_bytes(std::span(key))));
}

std::optional<DrawnFace> load_drawn_face(const std::string& cache_path, int64_t picture_bytes) {
  const FilePtr file(cache_path.empty() ? nullptr : std::fopen(cache_path.c_str(), "rbe"));
  struct stat info {};
  if (file == nullptr || ::fstat(::fileno(file.get()), &info) != 0) {
    return std::nullopt;
  }
  Xxh128 hash;
  std::array<char, 8> magic{};
  uint64_t count = 0;
  if (!read_all(file.get(), std::as_writable_bytes(std::span(magic)), hash) || !std::ranges::equal(magic, kMagic) ||
      !read_all(file.get(), std::as_writable_bytes(std::span(&count, 1)), hash)) {
    return std::nullopt;
  }
  // The size of the file says whether the count can be believed, before memory is taken for it.
  const auto each = sizeof(int32_t) + static_cast<uint64_t>(picture_bytes);
  if (count > 0x110000 ||
      magic.size() + sizeof count + count * each + kDigestBytes != static_cast<uint64_t>(info.st_size)) {
    return std::nullopt;
  }
  DrawnFace face;
  face.codepoints.resize(count);
  face.pixels.resize(count * static_cast<uint64_t>(picture_bytes));
  std::array<char, kDigestBytes> digest{};
  if (!read_all(file.get(), bytes_of(face.codepoints), hash) || !read_all(file.get(), bytes_of(face.pixels), hash) ||
      std::fread(digest.data(), 1, digest.size(), file.get()) != digest.size() ||
      !std::ranges::equal(digest, hash.hex())) {
    return std::nullopt;
  }
  return face;
}

void store_drawn_face(const std::string& cache_path, const DrawnFace& face) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(cache_path).parent_path(), failed);
  const std::string pending = fmt::format("{}.tmp-{}", cache_path, ::getpid());
  FilePtr file(failed || cache_path.empty() ? nullptr : std::fopen(pending.c_str(), "wbxe"));
  if (file == nullptr) {
    return;
  }
  Xxh128 hash;
  const uint64_t count = face.codepoints.size();
  bool good = write_all(file.get(), std::as_bytes(std::span(kMagic)), hash) &&
              write_all(file.get(), std::as_bytes(std::span(&count, 1)), hash) &&
              write_all(file.get(), std::as_bytes(std::span(face.codepoints)), hash) &&
              write_all(file.get(), std::as_bytes(std::span(face.pixels)), hash);
  const std::string digest = hash.hex();
  good = good && std::fwrite(digest.data(), 1, digest.size(), file.get()) == digest.size();
  good = std::fclose(file.release()) == 0 && good;
  if (!good || std::rename(pending.c_str(), cache_path.c_str()) != 0) {
    std::remove(pending.c_str());
  }
}

}  // namespace xrun::runtime
