// A new file that is written from its start to its end.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// Writes are collected, so that small ones cost little. The bytes are on the disk after `finish`; a file that is not
// finished stays incomplete. One thread at a time.
class OutputFile {
 public:
  /// Makes the file, or empties it. Errors: kWorld XG0901.
  static Result<std::unique_ptr<OutputFile>> create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;

  /// Appends bytes. Errors: kWorld XG0901 with the system's reason, such as a full disk.
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  /// Writes what is collected, syncs the file and closes it. Errors: kWorld XG0901.
  Status finish();

  Bytes bytes() const { return bytes_; }  // that were appended

 private:
  OutputFile(int file, std::string path) : file_(file), path_(std::move(path)) {}
  Status flush();

  int file_;
  std::string path_;
  std::vector<std::byte> collected_;
  Bytes bytes_ = 0;
};

}  // namespace xrun::runtime
