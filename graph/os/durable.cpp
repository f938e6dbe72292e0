// Tests: tests/graph/base/base_test.cpp, tests/runtime/formats/tensors/npy_test.cpp
#include "graph/os/durable.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace xrun {
namespace {

int sync_and_close(int file, int fault, Io& io) {
  fault = fault == 0 ? io.sync(file) : fault;
  const int unclosed = io.close(file);
  return fault == 0 ? unclosed : fault;
}

bool is_of(const FileKind& kind, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(kind.offset + kind.magic.size(), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return file && start.ends_with(kind.magic);
}

// The temporary name under which a file is written. The destructor removes the file if it still has that name.
struct Fresh {
  explicit Fresh(const std::string& path) : target(path) {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
    target = error ? path : real.string();
    // The name contains the process id, since another process may be writing to `target` as well.
    name = target + ".tmp-" + std::to_string(::getpid());
  }
  ~Fresh() { std::remove(name.c_str()); }
  Fresh(Fresh&&) = delete;

  std::string target;
  std::string name;
};

// Checks that the directory of a file that does not exist yet is there. A directory that cannot be examined is left to
// the write, which reports the system's reason.
Status check_directory(const std::string& path, const FileKind& kind) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path parent = fs::path(path).parent_path();
  const auto status = fs::status(parent.empty() ? "." : parent, error);
  if (fs::is_directory(status) || (error && status.type() != fs::file_type::not_found)) {
    return {};
  }
  return Error{ErrorKind::kWorld, std::string(kind.code),
               "cannot write `" + path + "`: there is no directory `" + parent.string() + "`",
               "make the directory, or choose another place with `" + std::string(kind.flag) + "`"};
}

Error unwritten(const ResultFile& file, int fault) {
  return Error{ErrorKind::kWorld, std::string(file.kind.code),
               "cannot write `" + file.path + "`: " + std::strerror(fault),
               "choose another place with `" + std::string(file.kind.flag) + "`, or free some space"};
}

}  // namespace

int write_durably(const std::string& path, Pieces pieces, Io& io) {
  const int file = io.open(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file < 0) {
    return -file;
  }
  int fault = 0;
  for (const std::span<const std::byte> piece : pieces) {
    fault = fault == 0 ? io.write(file, piece) : fault;
  }
  return sync_and_close(file, fault, io);
}

int write_durably(const std::string& path, std::span<const std::byte> bytes, Io& io) {
  return write_durably(path, Pieces(&bytes, 1), io);
}

int sync_directory(const std::string& path, Io& io) {
  const int file = io.open(path, O_RDONLY | O_DIRECTORY);
  return file < 0 ? -file : sync_and_close(file, 0, io);
}

Status check_place(const std::string& path, const FileKind& kind) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return check_directory(path, kind);  // the path may also be unreadable; the write will report that
  }
  if (!std::filesystem::is_regular_file(status)) {
    return Error{ErrorKind::kUsage, std::string(kind.code), "`" + path + "` is not a regular file",
                 "choose another place with `" + std::string(kind.flag) + "`"};
  }
  if (std::filesystem::file_size(path, error) > 0 && !error && ::access(path.c_str(), R_OK) == 0 &&
      !is_of(kind, path)) {
    return Error{ErrorKind::kUsage, std::string(kind.code),
                 "`" + path + "` exists and is not a " + std::string(kind.name) + ", so it would be lost",
                 "choose another place with `" + std::string(kind.flag) + "`, or remove the file"};
  }
  return {};
}

Status replace_file(const std::string& path, Pieces pieces, const FileKind& kind) {
  const ResultFile file{path, pieces, kind};
  return replace_files(std::span(&file, 1));
}

Status replace_file(const std::string& path, const FileKind& kind, const std::function<Status(const ByteSink&)>& fill) {
  const ResultFile result{path, {}, kind};
  XRUN_TRY(check_place(path, kind));
  const Fresh fresh(path);
  Io& io = system_io();
  const int file = io.open(fresh.name, O_WRONLY | O_CREAT | O_TRUNC);
  if (file < 0) {
    return unwritten(result, -file);
  }
  int fault = 0;
  const Status filled = fill([&](std::span<const std::byte> bytes) {
    fault = fault == 0 ? io.write(file, bytes) : fault;
    return fault;
  });
  fault = sync_and_close(file, fault, io);
  if (fault == 0 && filled.ok() && std::rename(fresh.name.c_str(), fresh.target.c_str()) != 0) {
    fault = errno;
  }
  return fault != 0 ? Status(unwritten(result, fault)) : filled;
}

int rewrite_file(const std::string& path, std::span<const std::byte> bytes) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || ::access(path.c_str(), W_OK) != 0) {
    return errno;
  }
  if (!S_ISREG(info.st_mode)) {
    return EINVAL;
  }
  const Fresh fresh(path);
  if (const int fault = write_durably(fresh.name, bytes); fault != 0) {
    return fault;
  }
  // The owner is set first, because a change of the owner clears bits of the mode. Only root may change it.
  if (::chown(fresh.name.c_str(), info.st_uid, info.st_gid) != 0 && errno != EPERM) {
    return errno;
  }
  if (::chmod(fresh.name.c_str(), info.st_mode & 07777) != 0 ||
      std::rename(fresh.name.c_str(), fresh.target.c_str()) != 0) {
    return errno;
  }
  return 0;
}

Status replace_files(std::span<const ResultFile> files) {
  std::deque<Fresh> fresh;
  for (const ResultFile& file : files) {
    XRUN_TRY(check_place(file.path, file.kind));
    fresh.emplace_back(file.path);
  }
  for (size_t i = 0; i < files.size(); ++i) {
    if (const int fault = write_durably(fresh[i].name, files[i].pieces); fault != 0) {
      return unwritten(files[i], fault);
    }
  }
  for (size_t i = 0; i < files.size(); ++i) {
    if (std::rename(fresh[i].name.c_str(), fresh[i].target.c_str()) != 0) {
      return unwritten(files[i], errno);
    }
  }
  return {};
}

}  // namespace xrun
