// The header of safetensors files (docs/reference/formats.md, "Tensor files"): u64 n, then n bytes of JSON that name
// the tensors and the places of their data.
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
  Bytes begin = 0;  // offset in the data part
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

// Parses the start of a file of `file_bytes`: the length word and the JSON, which must both be in `start`. `name` is
// for messages. Errors XG0715: a length beyond the limit or the file; JSON that does not follow the format; a repeated
// name; data that overlaps, leaves holes, or does not fill the file; a size that does not match the shape.
Result<SafeHeader> parse_safetensors(std::span<const std::byte> start, Bytes file_bytes, std::string_view name);

// The length word and the JSON for `tensors`, whose offsets are set, in their order; padded with spaces.
std::string print_safetensors(const std::vector<SafeTensor>& tensors,
                              const std::map<std::string, std::string>& metadata);

// Sorts by alignment, descending, then by name, like the reference implementation, and sets the offsets.
void lay_out(std::vector<SafeTensor>& tensors);

// The error XG0715 for a file that is damaged or not a safetensors file.
Error damaged_safetensors(std::string_view file, std::string why);

}  // namespace xrun::runtime
