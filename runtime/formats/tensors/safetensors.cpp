#include "runtime/formats/tensors/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/check.h"
#include "graph/os/regular_file.h"

namespace xrun::runtime {
namespace {

Error write_error(std::string_view path, int number) {
  return {.kind = ErrorKind::kWorld,
          .code = "XG0711",
          .message = fmt::format("cannot write {}: {}", path, std::strerror(number)),
          .help = number == ENOSPC || number == EDQUOT || number == EFBIG ? "free some space, or write elsewhere" : ""};
}

Error read_error(std::string_view path, int number) {
  return {.kind = number == ENOENT || number == ENOTDIR ? ErrorKind::kContent : ErrorKind::kWorld,
          .code = "XG0713",
          .message = fmt::format("cannot read {}: {}", path, std::strerror(number)),
          .help = ""};
}

Status read_at(int file, const std::string& path, Bytes offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(file, out.data(), std::min<size_t>(out.size(), size_t{1} << 30), offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return read_error(path, errno);
    }
    if (got == 0) {
      return damaged_safetensors(path, "it became shorter while it was read");
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return {};
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path, const std::vector<SafeTensor>& tensors,
                                                    const std::map<std::string, std::string>& metadata, Io& io) {
  SafetensorsWriter made(io);
  made.path_ = path;
  made.file_ = io.open(path, O_WRONLY | O_CREAT | O_EXCL);
  if (made.file_ < 0) {
    return write_error(path, -made.file_);
  }
  const std::string header = print_safetensors(tensors, metadata);
  made.expected_ = static_cast<Bytes>(header.size()) + (tensors.empty() ? 0 : tensors.back().end);
  XRUN_TRY(made.write(std::as_bytes(std::span(header))));
  return made;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : io_(other.io_),
      path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      bytes_(other.bytes_),
      expected_(other.expected_),
      hash_(std::move(other.hash_)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ >= 0) {
    io_.close(file_);
  }
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  hash_.add(bytes);
  bytes_ += static_cast<Bytes>(bytes.size());
  const int fault = io_.write(file_, bytes);
  return fault == 0 ? Status() : write_error(path_, fault);
}

Status SafetensorsWriter::finish() {
  XRUN_CHECK(bytes_ == expected_, "a safetensors file without all of its data: " + path_);
  int fault = io_.sync(file_);
  const int unclosed = io_.close(std::exchange(file_, -1));
  fault = fault == 0 ? unclosed : fault;
  return fault == 0 ? Status() : write_error(path_, fault);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile made;
  made.path_ = path;
  made.file_ = open_regular(path, Links::kRefuse);
  if (made.file_ < 0) {
    return read_error(path, -made.file_);
  }
  struct stat info {};
  if (::fstat(made.file_, &info) != 0) {
    return read_error(path, errno);
  }
  uint64_t length = 0;
  if (info.st_size < 8) {
    return damaged_safetensors(path, "too short for a header");
  }
  XRUN_TRY(read_at(made.file_, path, 0, std::as_writable_bytes(std::span(&length, 1))));
  const auto most = static_cast<uint64_t>(std::min<Bytes>(info.st_size - 8, kMostHeaderBytes));
  std::vector<std::byte> start(8 + std::min(length, most));
  XRUN_TRY(read_at(made.file_, path, 0, start));
  XRUN_ASSIGN(made.header_, parse_safetensors(start, info.st_size, path));
  return made;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), header_(std::move(other.header_)) {}

SafetensorsFile::~SafetensorsFile() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

Status SafetensorsFile::read(const SafeTensor& tensor, Bytes offset, std::span<std::byte> out) const {
  XRUN_CHECK(offset >= 0 && offset + static_cast<Bytes>(out.size()) <= tensor.end - tensor.begin,
             "bytes outside a tensor");
  return read_at(file_, path_, header_.header_bytes + tensor.begin + offset, out);
}

}  // namespace xrun::runtime
