#include "runtime/formats/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <unistd.h>
#include <zlib.h>

#include "graph/base/errors.h"
#include "graph/os/regular_file.h"
#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

// The limit of the ratio between unpacked and packed bytes. Deflate can reach 1,032 at most; the ratio of ordinary data
// is far below a thousand.
constexpr uint64_t kMostRatio = 1000;
constexpr uint64_t kAnyRatio = 1 << 20;  // a file may unpack to this many bytes at any ratio

const char* help_for(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return "check the path; a relative path starts at the file that names it, and on the command line at the "
             "working directory";
    case EACCES:
    case EPERM:
      return "give the user who runs xrun the right to read it";
    case EMFILE:
      return "raise the limit of open files (`ulimit -n`)";
    default:
      return "";
  }
}

}  // namespace

Error file_error(std::string_view path, int error_number) {
  const bool missing = error_number == ENOENT || error_number == ENOTDIR;
  return {.kind = missing ? ErrorKind::kContent : ErrorKind::kWorld,
          .code = "XG0401",
          .message = fmt::format("cannot read {}: {}", path, std::strerror(error_number)),
          .help = help_for(error_number)};
}

bool unpacks_too_far(uint64_t packed, uint64_t unpacked) {
  return unpacked > kAnyRatio && unpacked / kMostRatio > packed;
}

Error broken_file(std::string_view path, std::string_view why) {
  return content_error("XG0412", {"{}: {}", path, why}, "get the file again");
}

Result<int> open_ordinary(const std::string& path) {
  const int file = open_regular(path);
  if (file == -EISDIR || file == -ESPIPE) {
    return content_error("XG0401", {"{} is {}", path, file == -EISDIR ? "a directory" : "not a regular file"},
                         "name a file");
  }
  return file < 0 ? Result<int>(file_error(path, -file)) : Result<int>(file);
}

Result<size_t> read_some(int file, const std::string& path, std::span<std::byte> to, StopFlag stop) {
  for (;;) {
    XRUN_TRY(check_stop(stop));
    const ssize_t got = ::read(file, to.data(), to.size());
    if (got >= 0) {
      return static_cast<size_t>(got);
    }
    if (errno != EINTR) {
      return file_error(path, errno);
    }
  }
}

namespace {

// Unpacks the members of a gzip file one after the other; zlib checks checksum and length of each.
class Gunzip {
 public:
  Gunzip() {
    if (::inflateInit2(&stream_, 15 + 16) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Gunzip() { ::inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;

  // Unpacks `packed` and appends the result until `to` has `most` bytes. Returns null, or the fault. Empty `packed`
  // means that the file has ended, which is a fault inside a member.
  const char* add(std::span<const std::byte> packed, std::vector<std::byte>& to, size_t most) {
    if (packed.empty()) {
      return ended_ ? nullptr : "cut short";
    }
    packed_ += packed.size();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    bool full = false;  // whether the last call filled its output, so that more output may follow without further input
    while ((stream_.avail_in > 0 || full) && to.size() < most) {
      if (ended_) {
        if (const char* why = begin_member()) {
          return why;
        }
        continue;
      }
      const size_t old = to.size();
      to.resize(old + std::min(kReadChunk, most - old));
      stream_.next_out = reinterpret_cast<Bytef*>(to.data() + old);
      stream_.avail_out = static_cast<uInt>(to.size() - old);
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      full = stream_.avail_out == 0;
      to.resize(to.size() - stream_.avail_out);
      if (status == Z_STREAM_END) {
        ended_ = true;
        full = false;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return stream_.msg != nullptr ? stream_.msg : "damaged";
      }
      if (unpacks_too_far(packed_, to.size())) {
        return "it unpacks to more than 1 000 times its size";
      }
    }
    return nullptr;
  }

 private:
  // Called between two members, or at the zeros with which tapes pad a file.
  const char* begin_member() {
    if (*stream_.next_in == 0) {
      padded_ = true;
      ++stream_.next_in;
      --stream_.avail_in;
      return nullptr;
    }
    if (padded_ || ::inflateReset(&stream_) != Z_OK) {
      return "bytes after the end of its last member";
    }
    ended_ = false;
    return nullptr;
  }

  z_stream stream_{};
  uint64_t packed_ = 0;
  bool ended_ = false;   // the position is after the last byte of a member
  bool padded_ = false;  // the position is after zeros that follow a member
};

bool is_gzip(std::span<const std::byte> start) {
  return start.size() >= 2 && start[0] == std::byte{0x1F} && start[1] == std::byte{0x8B};
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::string& path, Bytes most, StopFlag stop) {
  XRUN_ASSIGN(const int opened, open_ordinary(path));
  const OpenFile file(opened);
  std::vector<std::byte> out;
  std::vector<std::byte> chunk(kReadChunk);
  const auto limit = static_cast<size_t>(most);
  std::optional<Gunzip> gunzip;
  for (bool first = true; out.size() < limit; first = false) {
    XRUN_ASSIGN(const size_t got, read_some(file.get(), path, chunk, stop));
    const std::span<const std::byte> part = std::span(chunk).first(got);
    if (first && is_gzip(part)) {
      gunzip.emplace();
    }
    if (gunzip) {
      if (const char* why = gunzip->add(part, out, limit)) {
        return broken_file(path, why);
      }
    } else {
      out.insert(out.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(std::min(got, limit - out.size())));
    }
    if (got == 0) {
      break;
    }
  }
  return out;
}

}  // namespace xrun::runtime
