#include "runtime/formats/records/recordio.h"

#include <cstring>
#include <fmt/format.h>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

constexpr int kLengthBits = 29;
constexpr size_t kMagicBytes = sizeof kRecordMagic;

uint32_t word_at(std::span<const std::byte> bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);  // x86 and ARM, on which this runs, are little-endian
  return word;
}

}  // namespace

std::optional<Piece> piece_at(std::span<const std::byte> bytes) {
  const uint32_t kind_and_length = word_at(bytes.subspan(kMagicBytes));
  const uint32_t kind = kind_and_length >> kLengthBits;
  if (word_at(bytes) != kRecordMagic || kind > static_cast<uint32_t>(PieceKind::kLast)) {
    return std::nullopt;
  }
  return Piece{static_cast<PieceKind>(kind), kind_and_length & ((1u << kLengthBits) - 1)};
}

Error no_record(Bytes offset, std::span<const std::byte> bytes) {
  const std::string found =
      bytes.size() < kMagicBytes ? "the file ends" : fmt::format("0x{:08x} stands", word_at(bytes));
  return content_error(
      "XG0412", {"no record begins at byte {}: {} where its mark 0x{:08x} should be", offset, found, kRecordMagic},
      "get the file and its index again, or raise `max_bad`");
}

Result<RecordSize> record_size(std::span<const std::byte> start, Bytes offset) {
  Bytes at = 0;
  for (bool first = true;; first = false) {
    const auto here = std::span(start).subspan(static_cast<size_t>(at));
    if (here.size() < kPieceHeader) {
      return RecordSize{false, at + static_cast<Bytes>(kPieceHeader)};
    }
    const std::optional<Piece> piece = piece_at(here);
    if (!piece) {
      return no_record(offset + at, here);
    }
    if (piece->begins_record() != first) {
      return content_error("XG0412",
                           {"the record at byte {} has its pieces in a wrong order: at byte {} is {} piece", offset,
                            offset + at, first ? "a later" : "the first"},
                           "get the file again, or raise `max_bad`");
    }
    const Bytes end = at + static_cast<Bytes>(kPieceHeader) + piece->length;
    if (end > kLargestRecord) {
      return content_error("XG0412", {"the record at byte {} is larger than {}", offset, format_bytes(kLargestRecord)},
                           "its length may be damaged: get the file again, or raise `max_bad`");
    }
    if (end > static_cast<Bytes>(start.size())) {
      return RecordSize{false, end};
    }
    if (piece->ends_record()) {
      return RecordSize{true, end};
    }
    at += static_cast<Bytes>(kPieceHeader) + piece->padded();
    if (at > static_cast<Bytes>(start.size())) {
      return RecordSize{false, at + static_cast<Bytes>(kPieceHeader)};
    }
  }
}

std::span<std::byte> join_pieces(std::span<std::byte> record) {
  const Piece first = *piece_at(record);
  if (first.ends_record()) {
    return record.subspan(kPieceHeader, first.length);
  }
  // A piece moves towards the start by 4 bytes for each piece before it, so no byte is overwritten before it is moved.
  std::span<std::byte> to = record.subspan(kPieceHeader);
  size_t joined = 0;
  for (size_t at = 0;;) {
    const Piece piece = *piece_at(record.subspan(at));
    if (at > 0) {
      std::memcpy(to.data() + joined, &kRecordMagic, kMagicBytes);
      joined += kMagicBytes;
    }
    std::memmove(to.data() + joined, record.data() + at + kPieceHeader, piece.length);
    joined += piece.length;
    if (piece.ends_record()) {
      return to.first(joined);
    }
    at += kPieceHeader + static_cast<size_t>(piece.padded());
  }
}

size_t find_record(std::span<const std::byte> bytes) {
  for (size_t at = 0; at + kPieceHeader <= bytes.size(); at += 4) {
    const std::optional<Piece> piece = piece_at(bytes.subspan(at));
    if (piece && piece->begins_record()) {
      return at;
    }
  }
  return bytes.size();
}

}  // namespace xrun::runtime
