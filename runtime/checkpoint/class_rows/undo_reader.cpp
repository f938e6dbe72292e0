// Tests: tests/runtime/checkpoint/class_rows/class_row_file_test.cpp
#include "runtime/checkpoint/class_rows/undo_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "graph/os/regular_file.h"
#include "runtime/checkpoint/class_rows/class_row_errors.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kHeadBytes = kUndoRecordHeadBytes;

Error unreadable(std::string_view path, int number) {
  return world_error("XG0713", {"cannot read {}: {}", path, std::strerror(number)},
                     "give this user the right to read it, or check its disk");
}

}  // namespace

struct UndoReader::Head {
  std::byte digest[16];
  uint64_t magic;
  uint64_t at;
  uint64_t synced;
  uint64_t rows;
  char log[32];
};

Result<UndoReader> UndoReader::open(const std::string& path, const RowsLayout& layout) {
  const int file = open_regular(path, Links::kRefuse);
  switch (-file) {
    case ENOENT:
      return bad_rows_file(path, "is missing: the rows now belong to another checkpoint");
    case ELOOP:
    case EISDIR:
    case ESPIPE:
      return bad_rows_file(path, "is not a regular file");
    default:
      return file < 0 ? Result<UndoReader>(unreadable(path, -file)) : read(file, path, layout);
  }
}

Result<UndoReader> UndoReader::read(int file, const std::string& path, const RowsLayout& layout) {
  UndoReader made(path, layout);
  made.file_ = file;
  struct stat info {};
  if (::fstat(file, &info) != 0) {
    return unreadable(path, errno);
  }
  made.size_ = info.st_size;
  const Bytes record = layout.record_bytes(layout.rows_of_record());
  made.buffer_.resize(static_cast<size_t>(std::max(kUndoHeaderBytes, std::min(made.size_, record))));
  const auto start = std::span(made.buffer_).first(static_cast<size_t>(std::min(made.size_, kUndoHeaderBytes)));
  XRUN_TRY(made.read_at(0, start));
  XRUN_ASSIGN(made.header_, parse_undo_header(start, path));
  return made;
}

UndoReader::UndoReader(UndoReader&& other) noexcept
    : path_(std::move(other.path_)),
      layout_(std::move(other.layout_)),
      header_(std::move(other.header_)),
      file_(std::exchange(other.file_, -1)),
      size_(other.size_),
      at_(other.at_),
      closed_(other.closed_),
      buffer_(std::move(other.buffer_)) {}

UndoReader::~UndoReader() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

void UndoReader::rewind() {
  at_ = kUndoHeaderBytes;
  closed_ = false;
}

Result<std::optional<UndoRecord>> UndoReader::next(bool power_was_cut) {
  if (at_ == size_) {
    return std::optional<UndoRecord>();
  }
  if (closed_) {
    return damaged_at("continues after its last record");
  }
  XRUN_ASSIGN(const auto head, record_at(at_));
  if (!head && power_was_cut) {
    XRUN_ASSIGN(const bool was_durable, is_followed_by_records_of_later_syncs());
    return was_durable ? Result<std::optional<UndoRecord>>(damaged_at("is damaged")) : std::optional<UndoRecord>();
  }
  if (!head) {
    // If the writer was killed while it wrote, the log ends with the first bytes of a record.
    Head part{};
    std::memcpy(&part, buffer_.data(), static_cast<size_t>(std::min(size_ - at_, kHeadBytes)));
    const bool is_cut =
        size_ - at_ < kHeadBytes || (part.magic == kUndoMagic && part.at == static_cast<uint64_t>(at_) &&
                                     part.rows <= static_cast<uint64_t>(layout_.rows_of_record()) &&
                                     size_ - at_ < layout_.record_bytes(static_cast<int64_t>(part.rows)));
    return is_cut ? std::optional<UndoRecord>() : Result<std::optional<UndoRecord>>(damaged_at("is damaged"));
  }
  const auto n = static_cast<int64_t>(head->rows);
  at_ += layout_.record_bytes(n);
  if (n == 0) {
    closed_ = true;
    return next(power_was_cut);
  }
  const std::span rows(reinterpret_cast<const int32_t*>(buffer_.data() + kHeadBytes), head->rows);
  const bool ascend = std::ranges::adjacent_find(rows, std::greater_equal()) == rows.end();
  if (!ascend || rows.front() < 0 || rows.back() >= layout_.rows) {
    return damaged_at("names rows that the file does not have, in the record before byte");
  }
  return std::optional(UndoRecord{rows, buffer_.data() + kHeadBytes + rows.size_bytes()});
}

Status UndoReader::read_at(Bytes at, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(file_, out.data(), out.size(), at);
    if (got < 0 && errno != EINTR) {
      return unreadable(path_, errno);
    }
    if (got == 0) {
      return bad_rows_file(path_, "became shorter while it was read");
    }
    out = out.subspan(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    at += std::max<ssize_t>(got, 0);
  }
  return {};
}

Result<std::optional<UndoReader::Head>> UndoReader::record_at(Bytes at) {
  const auto left = static_cast<size_t>(size_ - at);
  XRUN_TRY(read_at(at, std::span(buffer_).first(std::min<size_t>(left, kHeadBytes))));
  Head head{};
  static_assert(sizeof head == kHeadBytes);
  if (left < sizeof head) {
    return std::optional<Head>();
  }
  std::memcpy(&head, buffer_.data(), sizeof head);
  if (head.magic != kUndoMagic || head.at != static_cast<uint64_t>(at) ||
      std::string_view(head.log, sizeof head.log) != header_.log ||
      head.rows > static_cast<uint64_t>(layout_.rows_of_record())) {
    return std::optional<Head>();
  }
  const auto bytes = static_cast<size_t>(layout_.record_bytes(static_cast<int64_t>(head.rows)));
  if (bytes > left) {
    return std::optional<Head>();
  }
  const auto record = std::span(buffer_).first(bytes);
  XRUN_TRY(read_at(at + kHeadBytes, record.subspan(kHeadBytes)));
  const auto digest = xxh128_bytes(record.subspan(sizeof head.digest));
  return std::ranges::equal(digest, head.digest) ? std::optional(head) : std::nullopt;
}

// Searches the rest of a damaged log for a record whose `synced` is an offset after the damage. Such a record shows
// that the damaged part was durable when the record was written, so a power cut cannot be the reason.
Result<bool> UndoReader::is_followed_by_records_of_later_syncs() {
  std::vector<uint64_t> words(static_cast<size_t>(std::min(kMiB, size_ - at_)) / sizeof(uint64_t));
  for (Bytes begin = at_; begin < size_; begin += kMiB) {
    const auto count = static_cast<size_t>(std::min(kMiB, size_ - begin)) / sizeof(uint64_t);
    XRUN_TRY(read_at(begin, std::as_writable_bytes(std::span(words).first(count))));
    for (size_t i = 0; i < count; ++i) {
      const Bytes at = begin + static_cast<Bytes>(i * sizeof(uint64_t)) - Bytes{offsetof(Head, magic)};
      if (words[i] != kUndoMagic || at <= at_) {
        continue;
      }
      XRUN_ASSIGN(const auto head, record_at(at));
      if (head && head->synced > static_cast<uint64_t>(at_)) {
        return true;
      }
    }
  }
  return false;
}

Error UndoReader::damaged_at(std::string_view why) const {
  return bad_rows_file(path_, fmt::format("{} at byte {}", why, at_));
}

}  // namespace xrun::runtime
