// Files that may be lost: under $XDG_CACHE_HOME/xrun, else ~/.cache/xrun. One may vanish, be damaged or not be writable
// at any time; then what it would save is done again.
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

namespace xrun::runtime {

// An empty string without XDG_CACHE_HOME and HOME.
std::string cache_directory();

// The file of what `key` says in full: DIRECTORY/kind-DIGEST. Empty without a directory.
std::string path_in_cache(std::string_view kind, std::string_view key);

// A cached file being read, front to back. Its last 32 bytes are the digest of those before.
class CachedFile {
 public:
  // Nothing when there is no such file.
  static std::optional<CachedFile> open(const std::string& path);

  // False when the file ends before.
  bool read(std::span<std::byte> out);
  // After all was read: whether it is, byte for byte, what was stored.
  bool intact();

  Bytes size() const { return size_; }  // without the digest

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  Bytes size_ = 0;
  Xxh128 hash_;
};

// The pieces one after the other, and their digest. Best effort: another name first, then renamed, so that readers
// never see a part.
void store_cached(const std::string& path, std::initializer_list<std::span<const std::byte>> pieces);

}  // namespace xrun::runtime
