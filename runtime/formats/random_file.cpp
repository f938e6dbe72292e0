#include "runtime/formats/random_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/formats/files.h"
#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // Linux reads less than 2 GiB in one call

}  // namespace

Result<RandomFile> RandomFile::open(const std::string& path) {
  RandomFile made;
  made.path_ = path;
  XRUN_ASSIGN(made.file_, open_ordinary(path));
  struct stat info {};
  if (::fstat(made.file_, &info) != 0) {
    return file_error(path, errno);
  }
  made.size_ = info.st_size;
  return made;
}

RandomFile RandomFile::in_memory(std::span<const std::byte> bytes, std::string name) {
  RandomFile made;
  made.path_ = std::move(name);
  made.bytes_ = bytes;
  made.size_ = static_cast<Bytes>(bytes.size());
  return made;
}

RandomFile::RandomFile(RandomFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), bytes_(other.bytes_), size_(other.size_) {}

RandomFile& RandomFile::operator=(RandomFile&& other) noexcept {
  path_ = std::move(other.path_);
  std::swap(file_, other.file_);
  bytes_ = other.bytes_;
  size_ = other.size_;
  return *this;
}

RandomFile::~RandomFile() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

Status RandomFile::read(Bytes offset, std::span<std::byte> to) const {
  const Bytes wanted = static_cast<Bytes>(to.size());
  if (offset < 0 || offset > size_ || wanted > size_ - offset) {
    return content_error("XG0412",
                         {"{}: cut short: {} bytes from {} on are needed, but it has {}", path_, wanted, offset, size_},
                         "get the file again");
  }
  if (file_ < 0) {
    std::ranges::copy(bytes_.subspan(static_cast<size_t>(offset), to.size()), to.begin());
    return {};
  }
  while (!to.empty()) {
    const ssize_t got = ::pread(file_, to.data(), std::min(to.size(), kMostAtOnce), offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return file_error(path_, errno);
    }
    if (got == 0) {
      return content_error("XG0412", {"{}: it became shorter after it was opened: it ends at byte {}", path_, offset},
                           "leave the file unchanged while it is in use, and run again");
    }
    to = to.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return {};
}

}  // namespace xrun::runtime
