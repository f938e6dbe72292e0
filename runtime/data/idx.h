// The `idx` reader: pictures and labels of a pair of IDX files (MNIST), gzip accepted.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/data/reader.h"

namespace xrun::runtime {

// 00 00 type ndim, ndim x u32 big-endian, data big-endian: a tensor whose first dimension counts samples.
struct IdxHeader {
  int type = 0;  // 0x08 u8, 0x09 i8, 0x0B i16, 0x0C i32, 0x0D f32, 0x0E f64
  std::vector<int64_t> dims;
  Bytes header_bytes = 0;
  Bytes data_bytes = 0;
};

// Reads the header at the start of `bytes`; `name` is for messages. Errors: XG0412 not IDX, cut short, or so large that
// its size overflows.
Result<IdxHeader> parse_idx_header(std::span<const std::byte> bytes, std::string_view name);

// Fields `pixels` u8 [1, H, W] and `label`. Errors: XG0401, XG0412.
Result<std::unique_ptr<Reader>> open_idx(const SourceSpec& spec, StopFlag stop);
// Of the pictures only the header; all labels, since they say how many classes there are.
Result<std::unique_ptr<Reader>> open_idx_header(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
