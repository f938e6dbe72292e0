#include "graph/os/cache_file.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/os/regular_file.h"

namespace xrun {
namespace {

constexpr size_t kDigestBytes = 32;

}  // namespace

std::string cache_directory() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/') {
    return std::string(xdg) + "/xrun";
  }
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.cache/xrun" : "";
}

std::string path_in_cache(std::string_view kind, std::string_view key) {
  const std::string directory = cache_directory();
  return directory.empty() ? "" : fmt::format("{}/{}-{}", directory, kind, xxh128(std::as_bytes(std::span(key))));
}

std::optional<CachedFile> CachedFile::open(const std::string& path) {
  CachedFile cached;
  const int file = path.empty() ? -1 : open_regular(path);
  cached.file_.reset(file < 0 ? nullptr : ::fdopen(file, "rb"));
  struct stat info {};
  if (cached.file_ == nullptr || ::fstat(file, &info) != 0 || info.st_size < static_cast<Bytes>(kDigestBytes) ||
      info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return std::nullopt;
  }
  cached.size_ = info.st_size - static_cast<Bytes>(kDigestBytes);
  return cached;
}

bool CachedFile::read(std::span<std::byte> out) {
  if (std::fread(out.data(), 1, out.size(), file_.get()) != out.size()) {
    return false;
  }
  hash_.add(out);
  return true;
}

bool CachedFile::intact() {
  std::array<char, kDigestBytes> digest{};
  return std::fread(digest.data(), 1, digest.size(), file_.get()) == digest.size() && std::fgetc(file_.get()) == EOF &&
         std::ranges::equal(digest, hash_.hex());
}

void store_cached(const std::string& path, std::initializer_list<std::span<const std::byte>> pieces) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  const std::string pending = fmt::format("{}.tmp-{}", path, ::getpid());
  std::FILE* file = failed || path.empty() ? nullptr : std::fopen(pending.c_str(), "wbxe");
  if (file == nullptr) {
    return;
  }
  Xxh128 hash;
  bool good = ::fchmod(::fileno(file), S_IRUSR | S_IWUSR) == 0;
  for (const auto piece : pieces) {
    hash.add(piece);
    good = good && std::fwrite(piece.data(), 1, piece.size(), file) == piece.size();
  }
  const std::string digest = hash.hex();
  good = good && std::fwrite(digest.data(), 1, digest.size(), file) == digest.size();
  good = std::fclose(file) == 0 && good;
  if (!good || std::rename(pending.c_str(), path.c_str()) != 0) {
    std::remove(pending.c_str());
  }
}

}  // namespace xrun
