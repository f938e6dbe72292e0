// Tests: tests/runtime/formats/pickle/pickle_test.cpp
#include "runtime/formats/pickle/pickle_input.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "graph/base/check.h"
#include "graph/base/errors.h"
#include "runtime/formats/files.h"
#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

class FileInput final : public PickleInput {
 public:
  FileInput(int file, std::string path, Bytes bytes) : file_(file), path_(std::move(path)), bytes_(bytes) {}

  const std::string& name() const override { return path_; }
  Bytes bytes() const override { return bytes_; }
  Status read(Bytes offset, std::span<std::byte> to) const override {
    XRUN_DCHECK(offset >= 0 && offset <= bytes_ - std::ssize(to), "a read beyond the end of a file");
    while (!to.empty()) {
      const ssize_t got = ::pread(file_.get(), to.data(), to.size(), offset);
      if (got == 0) {
        return broken_file(path_, "it became shorter while it was read");
      }
      if (got < 0 && errno != EINTR) {
        return file_error(path_, errno);
      }
      to = to.subspan(static_cast<size_t>(std::max<ssize_t>(got, 0)));
      offset += std::max<ssize_t>(got, 0);
    }
    return {};
  }

 private:
  OpenFile file_;
  std::string path_;
  Bytes bytes_;
};

class MemoryInput final : public PickleInput {
 public:
  MemoryInput(std::string name, std::span<const std::byte> bytes) : name_(std::move(name)), memory_(bytes) {}

  const std::string& name() const override { return name_; }
  Bytes bytes() const override { return std::ssize(memory_); }
  Status read(Bytes offset, std::span<std::byte> to) const override {
    std::ranges::copy(memory_.subspan(static_cast<size_t>(offset), to.size()), to.begin());
    return {};
  }

 private:
  std::string name_;
  std::span<const std::byte> memory_;
};

}  // namespace

Result<std::unique_ptr<PickleInput>> open_pickle_file(const std::string& path) {
  XRUN_ASSIGN(const int file, open_ordinary(path));
  struct stat info {};
  if (fstat(file, &info) != 0) {
    const int error = errno;
    ::close(file);
    return file_error(path, error);
  }
  return std::unique_ptr<PickleInput>(std::make_unique<FileInput>(file, path, info.st_size));
}

std::unique_ptr<PickleInput> pickle_in_memory(std::string name, std::span<const std::byte> bytes) {
  return std::make_unique<MemoryInput>(std::move(name), bytes);
}

Error damaged_pickle(std::string_view file, Bytes offset, std::string_view why) {
  return broken_file(file, fmt::format("offset {}: {}", offset, why));
}

}  // namespace xrun::runtime
