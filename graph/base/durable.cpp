#include "graph/base/durable.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
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

bool is_of(const FileKind& kind, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(kind.offset + kind.magic.size(), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return file && start.ends_with(kind.magic);
}

// What may be lost: an empty place, an empty file, a file of the kind that is written.
Status check_place(const std::string& path, const FileKind& kind) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return {};  // or cannot be seen, which writing will say
  }
  if (!std::filesystem::is_regular_file(status)) {
    return Error{ErrorKind::kUsage, std::string(kind.code), "`" + path + "` is no ordinary file",
                 "choose another place with `-o`"};
  }
  if (std::filesystem::file_size(path, error) > 0 && !error && ::access(path.c_str(), R_OK) == 0 &&
      !is_of(kind, path)) {
    return Error{ErrorKind::kUsage, std::string(kind.code),
                 "`" + path + "` is there and is no " + std::string(kind.name) + ": it would be lost",
                 "choose another place with `-o`, or remove the file"};
  }
  return {};
}

}  // namespace

int write_durably(const std::string& path, Pieces pieces) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) {
    return errno;
  }
  int fault = 0;
  for (const std::span<const std::byte> piece : pieces) {
    fault = fault == 0 ? write_all(file, piece) : fault;
  }
  return sync_and_close(file, fault);
}

int write_durably(const std::string& path, std::span<const std::byte> bytes) {
  return write_durably(path, Pieces(&bytes, 1));
}

int sync_directory(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return file < 0 ? errno : sync_and_close(file, 0);
}

Status replace_file(const std::string& path, Pieces pieces, const FileKind& kind) {
  XRUN_TRY(check_place(path, kind));
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  const std::string target = error ? path : real.string();
  // A name of this process: another one may be writing the same result.
  const std::string fresh = target + ".tmp-" + std::to_string(::getpid());
  int fault = write_durably(fresh, pieces);
  if (fault == 0 && std::rename(fresh.c_str(), target.c_str()) != 0) {
    fault = errno;
  }
  if (fault != 0) {
    std::remove(fresh.c_str());
    return Error{ErrorKind::kWorld, std::string(kind.code), "cannot write `" + path + "`: " + std::strerror(fault),
                 "choose another place with `-o`, or make room"};
  }
  return {};
}

}  // namespace xrun
