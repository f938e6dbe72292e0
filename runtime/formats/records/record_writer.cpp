#include "runtime/formats/records/record_writer.h"

#include <cstring>
#include <fmt/format.h>

#include "graph/base/check.h"
#include "runtime/formats/records/image_record.h"
#include "runtime/formats/records/recordio.h"

namespace xrun::runtime {
namespace {

constexpr int kLengthBits = 29;
constexpr size_t kMagicBytes = sizeof kRecordMagic;

template <class T>
void append_number(T number, std::vector<std::byte>& to) {
  const auto bytes = std::as_bytes(std::span(&number, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void append_piece(PieceKind kind, std::span<const std::byte> contents, std::vector<std::byte>& to) {
  append_number(kRecordMagic, to);
  append_number(static_cast<uint32_t>(kind) << kLengthBits | static_cast<uint32_t>(contents.size()), to);
  to.insert(to.end(), contents.begin(), contents.end());
  to.resize((to.size() + 3) / 4 * 4);
}

// The position of the first magic at a multiple of 4, from `from` on, which is such a multiple; the size if there is
// none.
size_t find_magic(std::span<const std::byte> contents, size_t from) {
  for (size_t at = from; at + kMagicBytes <= contents.size(); at += 4) {
    if (std::memcmp(contents.data() + at, &kRecordMagic, kMagicBytes) == 0) {
      return at;
    }
  }
  return contents.size();
}

}  // namespace

void append_record(std::span<const std::byte> contents, std::vector<std::byte>& to) {
  XRUN_CHECK(contents.size() < size_t{1} << kLengthBits, "a record is too long for its length field");
  XRUN_CHECK(to.size() % 4 == 0, "records begin at multiples of 4");
  for (size_t begin = 0;;) {
    const size_t end = find_magic(contents, begin);
    const bool is_first = begin == 0;
    const bool is_last = end == contents.size();
    const PieceKind kind = is_first ? (is_last ? PieceKind::kWhole : PieceKind::kFirst)
                                    : (is_last ? PieceKind::kLast : PieceKind::kMiddle);
    append_piece(kind, contents.subspan(begin, end - begin), to);
    if (is_last) {
      return;
    }
    begin = end + kMagicBytes;
  }
}

void append_image_record(uint64_t id, std::span<const float> labels, std::span<const std::byte> picture,
                         std::vector<std::byte>& to) {
  const bool is_list = labels.size() > 1;
  std::vector<std::byte> contents;
  contents.reserve(kImageHeader + labels.size_bytes() + picture.size());
  append_number(is_list ? static_cast<uint32_t>(labels.size()) : 0U, contents);
  append_number(is_list ? 0.0F : labels[0], contents);
  append_number(id, contents);
  append_number(uint64_t{0}, contents);
  for (size_t i = 0; is_list && i < labels.size(); ++i) {
    append_number(labels[i], contents);
  }
  contents.insert(contents.end(), picture.begin(), picture.end());
  append_record(contents, to);
}

std::string index_line(int64_t key, Bytes offset) { return fmt::format("{}\t{}\n", key, offset); }

std::string list_line(int64_t key, int64_t label, const std::string& path) {
  return fmt::format("{}\t{}.000000\t{}\n", key, label, path);
}

}  // namespace xrun::runtime
