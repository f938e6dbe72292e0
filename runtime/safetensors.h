// safetensors files (FORMATS 6): u64 n, n bytes of JSON, data. Readers trust nothing; the writer's files are read by
// the reference implementation, and their data begin at multiples of 64.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/tensor_type.h"
#include "runtime/xxh128.h"

namespace xrun::runtime {

// A tensor as the header names it. `dtype` is the format's own name ("F32", "BF16", "F8_E4M3", "U16").
struct SafeTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  Bytes begin = 0;  // in the data part
  Bytes end = 0;
};

struct SafeHeader {
  std::vector<SafeTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  Bytes header_bytes = 0;  // length word and JSON: where the data begin
  Bytes data_bytes = 0;

  const SafeTensor* find(std::string_view name) const;
};

// The reference's limit for the JSON part.
inline constexpr Bytes kMostHeaderBytes = 100'000'000;

std::string_view safetensors_name(DType dtype);

// Parses the start of a file of `file_bytes`: the length word and the JSON, which must both be in `start`. `name` is
// for messages. Errors XG0715: a length beyond the limit or the file; JSON that is not of the format; a repeated name;
// data that overlap, leave holes, or do not fill the file; a size that is not the shape's.
Result<SafeHeader> parse_safetensors(std::span<const std::byte> start, Bytes file_bytes, std::string_view name);

// Length word and JSON for `tensors`, whose offsets are set, in their order; padded with spaces.
std::string print_safetensors(const std::vector<SafeTensor>& tensors,
                              const std::map<std::string, std::string>& metadata);

// Sorts by alignment, descending, then name, as the reference does, and sets the offsets.
void lay_out(std::vector<SafeTensor>& tensors);

// Writes a new file front to back. Errors: kWorld XG0711 with the system's reason.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::string& path, const std::vector<SafeTensor>& tensors,
                                          const std::map<std::string, std::string>& metadata);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  // The next bytes of the data part.
  Status write(std::span<const std::byte> bytes);
  // Makes the file durable and closes it. All data have been written.
  Status finish();

  Bytes bytes() const { return bytes_; }  // of the file so far
  std::string digest() const { return hash_.hex(); }

 private:
  SafetensorsWriter() = default;

  std::string path_;
  int file_ = -1;
  Bytes bytes_ = 0;
  Bytes expected_ = 0;
  Xxh128 hash_;
};

// A file opened for reading. Errors: XG0713 (missing: kContent, otherwise kWorld), XG0715.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  ~SafetensorsFile();

  const SafeHeader& header() const { return header_; }
  // Bytes [offset, offset + out.size()) of a tensor.
  Status read(const SafeTensor& tensor, Bytes offset, std::span<std::byte> out) const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  int file_ = -1;
  SafeHeader header_;
};

}  // namespace xrun::runtime
