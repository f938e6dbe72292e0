#include "graph/os/io.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace xrun {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;

// The result of `call`, or minus the errno.
template <typename Call>
auto unless_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result < 0 ? static_cast<decltype(result)>(-errno) : result;
}

int fault_of(int result) { return result == 0 ? 0 : errno; }

}  // namespace

int Io::open(const std::string& path, int flags) {
  return unless_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

int Io::close(int file) {
  const int fault = fault_of(::close(file));
  return fault == EINTR ? 0 : fault;  // Linux has closed the descriptor nevertheless
}

int Io::write(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote =
        unless_interrupted([&] { return ::write(file, bytes.data(), std::min(bytes.size(), kMostAtOnce)); });
    if (wrote <= 0) {
      return wrote == 0 ? ENOSPC : static_cast<int>(-wrote);
    }
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return 0;
}

int Io::truncate(int file) {
  return -unless_interrupted([&] { return ::ftruncate(file, 0); });
}

int Io::reserve(int file, int64_t bytes) {
  int fault = EINTR;
  while (fault == EINTR) {
    fault = ::posix_fallocate(file, 0, bytes);
  }
  return fault;
}

int Io::sync(int file) {
  return -unless_interrupted([&] { return ::fsync(file); });
}

int Io::make_directory(const std::string& path) { return fault_of(::mkdir(path.c_str(), 0777)); }

int Io::remove_directory(const std::string& path) { return fault_of(::rmdir(path.c_str())); }

int Io::rename(const std::string& from, const std::string& to) { return fault_of(::rename(from.c_str(), to.c_str())); }

int Io::exchange(const std::string& a, const std::string& b) {
  return fault_of(::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE));
}

int Io::unlink_in(int directory, const std::string& name) { return fault_of(::unlinkat(directory, name.c_str(), 0)); }

int Io::unlink(const std::string& path) { return unlink_in(AT_FDCWD, path); }

int Io::lock(int file) {
  return -unless_interrupted([&] { return ::flock(file, LOCK_EX | LOCK_NB); });
}

Io& system_io() {
  static Io io;
  return io;
}

}  // namespace xrun
