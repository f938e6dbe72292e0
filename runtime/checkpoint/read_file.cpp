#include "runtime/checkpoint/read_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <vector>

#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "runtime/checkpoint/manifest.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kChunk = 4 * kMiB;
constexpr Bytes kLargestText = 4 * kGiB;

Error unreadable(std::string_view path, int number) {
  return world_error("XG0713", {"cannot read {}: {}", path, std::strerror(number)},
                     "give this user the right to read it, or name another checkpoint");
}

}  // namespace

Status stream_file(const std::string& path, const std::function<Status(std::span<const std::byte>)>& use) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return errno == ENOENT ? damaged(path, "is missing") : unreadable(path, errno);
  }
  std::vector<std::byte> buffer(static_cast<size_t>(kChunk));
  Status done;
  while (done.ok()) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      done = got < 0 ? Status(unreadable(path, errno)) : Status();
      break;
    }
    done = use(std::span(buffer).first(static_cast<size_t>(got)));
  }
  ::close(file);
  return done;
}

Result<std::string> read_text(const std::string& path) {
  std::string text;
  XRUN_TRY(stream_file(path, [&](std::span<const std::byte> bytes) -> Status {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return static_cast<Bytes>(text.size()) > kLargestText ? Status(damaged(path, "is too large")) : Status();
  }));
  return text;
}

}  // namespace xrun::runtime
