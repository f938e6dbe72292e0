// Cache files in the directory $XDG_CACHE_HOME/xrun or, if the variable is not set, ~/.cache/xrun. A file may vanish,
// be damaged or not be writable at any time; the work that it would have saved is then repeated. Files that belong to
// another user, or that other users may write, are ignored, because some files contain code.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/base/units.h"
#include "graph/base/xxh128.h"

namespace xrun {

// The directory of the cache; empty if neither XDG_CACHE_HOME nor HOME is an absolute path.
std::string cache_directory();

// The path DIRECTORY/kind-DIGEST, with the digest of `key`, the full description of the content. Empty if there is no
// cache directory.
std::string path_in_cache(std::string_view kind, std::string_view key);

// A cached file being read, front to back. Its last 32 bytes are the digest of those before.
class CachedFile {
 public:
  // Returns nullopt if the file does not exist, is too short for a digest, or may have been written by other users.
  static std::optional<CachedFile> open(const std::string& path);

  // Fills `out`; false if the file is too short.
  bool read(std::span<std::byte> out);
  // Whether the digest matches the bytes read. REQUIRES: all `size()` bytes were read.
  bool intact();

  Bytes size() const { return size_; }  // size of the content, without the digest

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  Bytes size_ = 0;
  Xxh128 hash_;
};

// Writes the pieces one after the other, then their digest, to a temporary file and renames it, so that readers never
// see a partial file. Best effort: reports no errors.
void store_cached(const std::string& path, std::initializer_list<std::span<const std::byte>> pieces);

}  // namespace xrun
