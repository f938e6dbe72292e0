// The contents of a record that MXNet's im2rec and InsightFace write: a header, labels and an encoded picture.
//
//   u32 flag, f32 label, u64 id, u64 id2, f32 labels[flag], picture        (little-endian)
//
// `flag` is the number of labels in the list; with 0 the label of the header is the only one. InsightFace also writes
// records without pictures: two labels give a range of record keys. Source: mxnet/recordio.py, `pack`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

inline constexpr size_t kImageHeader = 24;       // bytes before the labels
inline constexpr Bytes kRangeRecord = 24 + 8;    // size of a record of two labels and no picture
inline constexpr float kMostLabel = 16'777'216;  // 2^24: from here on f32 does not hold every whole number

struct ImageHeader {
  uint32_t flag = 0;
  float label = 0;
  uint64_t id = 0;
};

// Reads the header; nullopt if there are fewer than kImageHeader bytes.
std::optional<ImageHeader> image_header_at(std::span<const std::byte> contents);

struct ImageRecord {
  ImageHeader header;
  std::span<const std::byte> list;   // `flag` labels of 4 bytes
  std::span<const std::byte> image;  // the encoded picture; empty if the record has none

  int64_t labels() const { return header.flag == 0 ? 1 : int64_t{header.flag}; }
  float label(int64_t i) const;
};

// Splits the contents of a record. Errors: XG0412 they are shorter than the header and the labels that it promises.
Result<ImageRecord> parse_image_record(std::span<const std::byte> contents);

// Checks that a record of `length` bytes has space for its labels. Errors: XG0412.
Status check_labels_fit(const ImageHeader& header, Bytes length);

}  // namespace xrun::runtime
