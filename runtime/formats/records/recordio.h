// MXNet's RecordIO: the pieces of a record. All numbers are little-endian.
//
//   record  a whole piece; or a first piece, middle pieces and a last piece
//   piece   u32 magic, u32 kind << 29 | length, `length` bytes, zeros up to a multiple of 4
//
// The writer cuts a record at each occurrence of the magic at a multiple of 4, and drops these four bytes. A magic at a
// multiple of 4 therefore always begins a piece. Source: dmlc-core, include/dmlc/recordio.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

inline constexpr uint32_t kRecordMagic = 0xced7230a;
inline constexpr size_t kPieceHeader = 8;                   // bytes before the contents of a piece
inline constexpr Bytes kLargestRecord = 256 * kMiB + kMiB;  // limit for the size of a record with all its pieces

enum class PieceKind : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

struct Piece {
  PieceKind kind = PieceKind::kWhole;
  uint32_t length = 0;  // bytes of its contents, without padding

  bool begins_record() const { return kind == PieceKind::kWhole || kind == PieceKind::kFirst; }
  bool ends_record() const { return kind == PieceKind::kWhole || kind == PieceKind::kLast; }
  Bytes padded() const { return (Bytes{length} + 3) / 4 * 4; }
};

// Reads the header of a piece; nullopt if `bytes` do not begin with one. REQUIRES: at least kPieceHeader bytes.
std::optional<Piece> piece_at(std::span<const std::byte> bytes);

// The size of a record, as far as its first bytes show it.
struct RecordSize {
  bool complete = false;
  // Complete: the size of the record without the padding of its last piece; the bytes that were examined contain all of
  // it. Otherwise: a lower bound, which is larger than the number of bytes that were examined.
  Bytes bytes = 0;
};

// Finds the size of the record that begins with `start`, which lies at `offset` in its file. Errors: XG0412 with the
// offset in the file (without the file's name): no record begins there, its pieces are in a wrong order, or it is
// larger than kLargestRecord.
Result<RecordSize> record_size(std::span<const std::byte> start, Bytes offset);

// Joins the pieces of a record in place, with the magic between them, and returns the contents: a part of `record`.
// REQUIRES: record_size of these bytes is complete.
std::span<std::byte> join_pieces(std::span<std::byte> record);

// The position of the first multiple of 4 in `bytes` at which a record begins; bytes.size() if there is none. The start
// of `bytes` is a multiple of 4 in the file.
size_t find_record(std::span<const std::byte> bytes);

// The error XG0412 for a place in a file of records at which none begins. `bytes`: those at the place, for the message.
Error no_record(Bytes offset, std::span<const std::byte> bytes);

}  // namespace xrun::runtime
