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
