// The header of NumPy's format .npy (docs/reference/formats.md, "NumPy arrays"): type, shape and order of an array.
// Source: the module numpy.lib.format of NumPy 2.2, whose documentation defines the versions 1.0, 2.0 and 3.0.
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

enum class NpyKind : uint8_t {
  kBool,
  kSigned,
  kUnsigned,
  kFloat,   // 2, 4 or 8 bytes
  kBf16,    // these three are stored as bytes without a type; the user says which one they are
  kF8E4M3,  // finite and NaN: OCP's e4m3fn
  kF8E5M2,
  kText,   // UTF-32 of equal length, padded with zeros
  kBytes,  // bytes of equal length, padded with zeros
};

struct NpyHeader {
  NpyKind kind = NpyKind::kFloat;
  Bytes item_bytes = 0;
  bool is_big_endian = false;
  bool is_fortran = false;    // the first dimension varies fastest, and this differs from the usual order
  std::vector<int64_t> dims;  // at most kMostNpyDims
  Bytes header_bytes = 0;     // offset of the data
  Bytes data_bytes = 0;
};

inline constexpr int kMostNpyDims = 5;
// The bytes that determine the length of the header, and the largest header that is read. A header of 64 KiB or more
// has the fields of a structured array.
inline constexpr Bytes kNpyPrefix = 12;
inline constexpr Bytes kMostNpyHeader = kMiB;

// Returns the offset of the data from the first bytes of a file, at most kNpyPrefix. Errors: XG0412 it is not a .npy
// file, has an unknown version, or has a header above kMostNpyHeader.
Result<Bytes> npy_header_bytes(std::span<const std::byte> start, std::string_view name);

// Reads the header at the start of `bytes`, which must contain all of it. The header is a dict of Python; a parser for
// its three entries reads it, and nothing is executed.
//   dtype  "bf16", "f8e4m3" or "f8e5m2": the type of an array of bytes without a type; empty: not given
//   name   for messages
// Errors: XG0412 the header is broken, or the array is structured, holds Python objects, or has a type or a number of
// dimensions that is not read; XG0413 `dtype` is missing, or does not fit the array.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> bytes, std::string_view dtype, std::string_view name);

// Describes an array for messages: "f32 [10, 28, 28]".
std::string npy_content(const NpyHeader& header);

}  // namespace xrun::runtime
