#include "runtime/formats/output_file.h"

#include <cstring>
#include <fcntl.h>

#include "graph/base/errors.h"
#include "graph/os/io.h"

namespace xrun::runtime {
namespace {

constexpr size_t kCollected = size_t{1} << 20;

Error unwritten(const std::string& path, int fault) {
  return world_error("XG0901", {"cannot write {}: {}", path, std::strerror(fault)},
                     "choose another place, or free some space");
}

}  // namespace

Result<std::unique_ptr<OutputFile>> OutputFile::create(const std::string& path) {
  const int file = system_io().open(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file < 0) {
    return unwritten(path, -file);
  }
  return std::unique_ptr<OutputFile>(new OutputFile(file, path));
}

OutputFile::~OutputFile() {
  if (file_ >= 0) {
    system_io().close(file_);
  }
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  bytes_ += static_cast<Bytes>(bytes.size());
  if (collected_.size() + bytes.size() > kCollected) {
    XRUN_TRY(flush());
  }
  if (bytes.size() < kCollected) {
    collected_.insert(collected_.end(), bytes.begin(), bytes.end());
    return {};
  }
  const int fault = system_io().write(file_, bytes);
  return fault == 0 ? Status() : Status(unwritten(path_, fault));
}

Status OutputFile::flush() {
  const int fault = system_io().write(file_, collected_);
  collected_.clear();
  return fault == 0 ? Status() : Status(unwritten(path_, fault));
}

Status OutputFile::finish() {
  XRUN_TRY(flush());
  int fault = system_io().sync(file_);
  const int unclosed = system_io().close(file_);
  file_ = -1;
  fault = fault == 0 ? unclosed : fault;
  return fault == 0 ? Status() : Status(unwritten(path_, fault));
}

}  // namespace xrun::runtime
