// Tests: tests/runtime/data/readers/webdataset/webdataset_test.cpp
#include "runtime/data/readers/webdataset/shard_file.h"

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/errors.h"
#include "runtime/formats/files.h"
#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kWindow = 4 * kKiB;  // the unit in which the system reads files
constexpr Bytes kLargestShard = kTarBlock << 32;

}  // namespace

Status read_at(int file, const std::string& path, Bytes offset, std::span<std::byte> to, StopFlag stop) {
  for (size_t done = 0; done < to.size();) {
    XRUN_TRY(check_stop(stop));
    const ssize_t got = ::pread(file, to.data() + done, to.size() - done, offset + static_cast<Bytes>(done));
    if (got == 0) {
      return broken_file(path, "became shorter while it was read");
    }
    if (got < 0 && errno != EINTR) {
      return file_error(path, errno);
    }
    done += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  return {};
}

Result<Bytes> shard_bytes(int file, const std::string& path) {
  struct stat info {};
  if (::fstat(file, &info) != 0) {
    return file_error(path, errno);
  }
  if (info.st_size >= kLargestShard) {
    return content_error("XG0412", {"{} has {}, more than the 2 TiB of a shard", path, format_bytes(info.st_size)},
                         "write smaller shards; 100 MB to 1 GB are usual");
  }
  return Bytes{info.st_size};
}

Result<std::span<const std::byte>> ShardFile::at(Bytes offset, Bytes count) {
  const Bytes window_end = window_begin_ + static_cast<Bytes>(window_.size());
  if (offset < window_begin_ || offset + count > window_end) {
    window_begin_ = offset;
    window_.resize(static_cast<size_t>(std::min(std::max(count, kWindow), size_ - offset)));
    XRUN_TRY(read_at(file_, path_, offset, window_, stop_));
  }
  return std::span<const std::byte>(window_).subspan(static_cast<size_t>(offset - window_begin_),
                                                     static_cast<size_t>(count));
}

}  // namespace xrun::runtime
