#include "graph/base/durable.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace xrun {
namespace {

int write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file, bytes.data(), bytes.size());
    if (wrote > 0) {
      bytes = bytes.subspan(static_cast<size_t>(wrote));
    } else if (wrote == 0 || errno != EINTR) {
      return wrote == 0 ? ENOSPC : errno;
    }
  }
  return 0;
}

int sync_and_close(int file, int fault) {
  if (fault == 0 && ::fsync(file) != 0) {
    fault = errno;
  }
  if (::close(file) != 0 && fault == 0) {
    fault = errno;
  }
  return fault;
}

}  // namespace

int write_durably(const std::string& path, std::span<const std::byte> bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return file < 0 ? errno : sync_and_close(file, write_all(file, bytes));
}

int sync_directory(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return file < 0 ? errno : sync_and_close(file, 0);
}

}  // namespace xrun
