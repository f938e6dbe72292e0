// The header of safetensors files (docs/reference/formats.md, "Tensor files"): a u64 length n, then n bytes of JSON
// with the names of the tensors and the places of their data.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// A tensor as the header describes it. `dtype` is the format's own name ("F32", "BF16", "F8_E4M3", "U16").
struct SafeTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  Bytes begin = 0;  // offset of the tensor in the data part
  Bytes end = 0;
};

struct SafeHeader {
  std::vector<SafeTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  Bytes header_bytes = 0;  // bytes of length word and JSON, after which the data begins
  Bytes data_bytes = 0;

  const SafeTensor* find(std::string_view name) const;
};

// The largest number of bytes of JSON that the reference implementation accepts.
inline constexpr Bytes kMostHeaderBytes = 100'000'000;

// Parses the start of a file that is `file_bytes` long. `start` must contain the length word and the JSON; `name` is
// for messages. Errors XG0715: the length exceeds the limit or the file; the JSON does not follow the format or repeats
// a name; the data overlaps, leaves holes, or does not fill the file; a size does not match the shape.
Result<SafeHeader> parse_safetensors(std::span<const std::byte> start, Bytes file_bytes, std::string_view name);

// Prints the length word and the JSON, padded with spaces, for `tensors` in their order. REQUIRES: their offsets are
// set.
std::string print_safetensors(const std::vector<SafeTensor>& tensors,
                              const std::map<std::string, std::string>& metadata);

// Sorts the tensors by descending alignment, then by name, like the reference implementation, and sets their offsets.
void lay_out(std::vector<SafeTensor>& tensors);

// The error XG0715 for a file that is damaged or not a safetensors file.
Error damaged_safetensors(std::string_view file, std::string why);

}  // namespace xrun::runtime
