#include "runtime/checkpoint/files/read_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "graph/base/errors.h"
#include "graph/os/regular_file.h"
#include "runtime/checkpoint/files/manifest.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kChunk = 4 * kMiB;

Error unreadable(std::string_view path, int number) {
  switch (number) {
    case ENOENT:
      return damaged(path, "is missing");
    case ELOOP:
      return damaged(path, "is a link, and links in a checkpoint are not followed");
    case EISDIR:
    case ESPIPE:
      return damaged(path, "is not a regular file");
    default:
      return world_error("XG0713", {"cannot read {}: {}", path, std::strerror(number)}, read_help(number));
  }
}

Error of_another_size(std::string_view path, Bytes bytes, Bytes expected) {
  return damaged(path, fmt::format("has {} bytes, not {}", bytes, expected));
}

}  // namespace

const char* read_help(int number) {
  return number == EACCES || number == EPERM ? "give this user the right to read it, or name another checkpoint"
                                             : "check the disk, or name another checkpoint";
}

Status stream_file(const std::string& path, std::optional<Bytes> expected,
                   const std::function<Status(std::span<const std::byte>)>& use) {
  const int file = open_regular(path, Links::kRefuse);
  if (file < 0) {
    return unreadable(path, -file);
  }
  struct stat info {};
  Status done;
  if (::fstat(file, &info) != 0) {
    done = unreadable(path, errno);
  } else if (expected && info.st_size != *expected) {
    done = of_another_size(path, info.st_size, *expected);
  }
  std::vector<std::byte> buffer(static_cast<size_t>(std::clamp<Bytes>(info.st_size, 1, kChunk)));
  Bytes bytes = 0;
  while (done.ok()) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      done = got < 0 ? Status(unreadable(path, errno)) : Status();
      break;
    }
    bytes += got;
    done = use(std::span(buffer).first(static_cast<size_t>(got)));
  }
  ::close(file);
  return done.ok() && expected && bytes != *expected ? Status(of_another_size(path, bytes, *expected)) : done;
}

Result<std::string> read_text(const std::string& path, Bytes most) {
  std::string text;
  XRUN_TRY(stream_file(path, std::nullopt, [&](std::span<const std::byte> bytes) -> Status {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return static_cast<Bytes>(text.size()) > most ? Status(damaged(path, "is too large")) : Status();
  }));
  return text;
}

}  // namespace xrun::runtime
