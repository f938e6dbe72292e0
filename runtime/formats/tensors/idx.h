// IDX files (MNIST): a tensor whose first dimension counts samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// The file: the bytes 0 0, type, ndim; then ndim u32 sizes and the data, all big-endian.
struct IdxHeader {
  int type = 0;  // 0x08 u8, 0x09 i8, 0x0B i16, 0x0C i32, 0x0D f32, 0x0E f64
  std::vector<int64_t> dims;
  Bytes header_bytes = 0;
  Bytes data_bytes = 0;
};

inline constexpr int kMostIdxDims = 4;
inline constexpr Bytes kMostIdxHeader = 4 + 4 * kMostIdxDims;

// Reads the header at the start of `bytes`; `name` is for messages. Errors: XG0412 the file is not IDX or is cut short,
// or it has more than kMostIdxDims dimensions or more than 64 GiB of data.
Result<IdxHeader> parse_idx_header(std::span<const std::byte> bytes, std::string_view name);

// The number of bytes of an element; 0 for an unknown type.
Bytes idx_element_bytes(int type);

// Describes the contents for messages: "f32 [10, 28, 28]".
std::string idx_content(const IdxHeader& header);

// Returns element `index` of the big-endian data as f64, which represents every type exactly.
double idx_number(int type, std::span<const std::byte> data, size_t index);

// The error XG0412 for a broken file of this name.
Error broken_idx(std::string_view name, std::string why);

}  // namespace xrun::runtime
