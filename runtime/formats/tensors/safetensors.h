// Writes safetensors files (docs/reference/formats.md, "Tensor files") front to back and reads them at any offset.
// Files to read are untrusted. The data of written files begins at a multiple of 64; the reference implementation can
// read these files.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/base/xxh128.h"
#include "graph/os/io.h"
#include "runtime/formats/tensors/safetensors_header.h"

namespace xrun::runtime {

// Writes a new file front to back. Errors: kWorld XG0711 with the system's reason.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::string& path, const std::vector<SafeTensor>& tensors,
                                          const std::map<std::string, std::string>& metadata, Io& io = system_io());
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  // Appends bytes to the data part of the file.
  Status write(std::span<const std::byte> bytes);
  // Makes the file durable and closes it. REQUIRES: all data has been written.
  Status finish();

  Bytes bytes() const { return bytes_; }  // size of the file so far
  std::string digest() const { return hash_.hex(); }

 private:
  explicit SafetensorsWriter(Io& io) : io_(io) {}

  Io& io_;
  std::string path_;
  int file_ = -1;
  Bytes bytes_ = 0;
  Bytes expected_ = 0;
  Xxh128 hash_;
};

// A regular file opened for reading; links are not followed. Errors: XG0713 it cannot be opened (kContent if it is
// missing, otherwise kWorld); XG0715.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  ~SafetensorsFile();

  const SafeHeader& header() const { return header_; }
  // Reads bytes [offset, offset + out.size()) of a tensor.
  Status read(const SafeTensor& tensor, Bytes offset, std::span<std::byte> out) const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  int file_ = -1;
  SafeHeader header_;
};

}  // namespace xrun::runtime
