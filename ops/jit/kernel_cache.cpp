#include "ops/jit/kernel_cache.h"

#include <span>

#include "graph/os/cache_file.h"

namespace xrun::ops {
namespace {

constexpr Bytes kMostObject = 16 * kMiB;

}  // namespace

// A file consists of the key, a line break and the object.
std::optional<std::string> read_object(std::string_view key) {
  auto file = CachedFile::open(path_in_cache("loop", key));
  const auto start = static_cast<Bytes>(key.size()) + 1;
  if (!file || file->size() <= start || file->size() > start + kMostObject) {
    return std::nullopt;
  }
  std::string content(static_cast<size_t>(file->size()), '\0');
  if (!file->read(std::as_writable_bytes(std::span(content))) || !file->intact() || !content.starts_with(key) ||
      content[key.size()] != '\n') {
    return std::nullopt;
  }
  return content.substr(static_cast<size_t>(start));
}

void store_object(std::string_view key, std::string_view object) {
  const std::string path = path_in_cache("loop", key);
  if (!path.empty()) {
    store_cached(path,
                 {std::as_bytes(std::span(key)), std::as_bytes(std::span("\n", 1)), std::as_bytes(std::span(object))});
  }
}

}  // namespace xrun::ops
