// A log is a header of text, filled up to 4 KiB, and records:
//   digest 16 bytes   XXH3-128 of the rest of the record
//   magic u64         "xrunUNDO"
//   at u64            offset of the record
//   synced u64        the log up to here was durable when the record was written
//   rows u64          n; 0 in the record that closes a log
//   log 32 bytes      id of the log, hex digits
//   n x i32           rows, ascending
//   sections          for each section the n old elements
//   zeros up to a multiple of 8
// The rows of each section are gathered together, so that a record is read and written front to back.
// Tests: tests/runtime/checkpoint/class_rows/class_row_file_test.cpp
#include "runtime/checkpoint/class_rows/undo_log.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "graph/os/durable.h"
#include "graph/os/regular_file.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/own_files.h"
#include "runtime/checkpoint/files/sealed_text.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kKind = "undo";
constexpr int64_t kVersion = 1;
constexpr uint64_t kMagic = 0x4f444e556e757278;  // "xrunUNDO"

Error bad_log(std::string_view path, std::string_view why) {
  return content_error("XG0710", {"{} {}", path, why},
                       "continue from a checkpoint of another directory, or start again");
}

Error unreadable(std::string_view path, int number) {
  return world_error("XG0713", {"cannot read {}: {}", path, std::strerror(number)},
                     "give this user the right to read it, or check its disk");
}

constexpr Bytes kHeadBytes = kUndoRecordHeadBytes;

}  // namespace

struct UndoReader::Head {
  std::byte digest[16];
  uint64_t magic;
  uint64_t at;
  uint64_t synced;
  uint64_t rows;
  char log[32];
};

std::string print_undo_header(const UndoHeader& header) {
  return seal(fmt::format("xrun {} {}\nrows {}\nlog {}\nstep {}\nowner {}\ndurable {}\n", kKind, kVersion, header.rows,
                          header.log, header.step, to_text(header.owner), header.durable ? 1 : 0),
              static_cast<size_t>(kUndoHeaderBytes));
}

Result<UndoHeader> parse_undo_header(std::span<const std::byte> start, std::string_view path) {
  const auto version = version_of(start, kKind);
  if (!version) {
    return bad_log(path, "is not an undo log, or its header is damaged");
  }
  if (*version > kVersion) {
    return content_error("XG0714", {"{} has version {}; this xrun knows {}", path, *version, kVersion},
                         "use the xrun that wrote it, or a later one");
  }
  if (start.size() < static_cast<size_t>(kUndoHeaderBytes)) {
    return bad_log(path, "is cut short within its header");
  }
  const auto bytes = start.first(static_cast<size_t>(kUndoHeaderBytes));
  const auto lines = unseal(bytes);
  if (!lines) {
    return bad_log(path, "has a damaged header");
  }
  LineReader reader(*lines);
  reader.text("xrun");
  UndoHeader read{.rows = std::string(reader.text("rows")), .log = std::string(reader.text("log"))};
  read.step = reader.number("step");
  const auto owner = parse_owner(reader.text("owner"));
  read.owner = owner.value_or(Owner{});
  read.durable = reader.number("durable") == 1;
  const std::span<const char> text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!is_digest(read.rows) || !is_digest(read.log) || !owner || !std::ranges::equal(print_undo_header(read), text)) {
    return bad_log(path, "has a header that no xrun wrote");
  }
  return read;
}

Result<UndoLog> UndoLog::create(std::string path, const UndoHeader& header, Io& io) {
  const std::string fresh = path + pending_tail();
  UndoLog made(std::move(path), header, io);
  made.file_ = io.open(fresh, O_RDWR | O_CREAT | O_EXCL);
  if (made.file_ < 0) {
    return checkpoint_write_error(made.path_, -made.file_);
  }
  const std::string text = print_undo_header(header);
  Status done = made.write(std::as_bytes(std::span(text)));
  done = done.ok() ? made.sync() : std::move(done);
  int fault = done.ok() ? io.rename(fresh, made.path_) : 0;
  if (!done.ok() || fault != 0) {
    io.unlink(fresh);
    return done.ok() ? checkpoint_write_error(made.path_, fault) : std::move(done).error();
  }
  fault = sync_directory(parent_of(made.path_), io);
  if (fault != 0) {
    return checkpoint_write_error(made.path_, fault);
  }
  return made;
}

UndoLog::UndoLog(UndoLog&& other) noexcept
    : io_(other.io_),
      path_(std::move(other.path_)),
      header_(std::move(other.header_)),
      file_(std::exchange(other.file_, -1)),
      end_(other.end_),
      synced_(other.synced_),
      fault_(other.fault_) {}

UndoLog& UndoLog::operator=(UndoLog&& other) noexcept {
  std::swap(io_, other.io_);
  std::swap(path_, other.path_);
  std::swap(header_, other.header_);
  std::swap(file_, other.file_);
  std::swap(end_, other.end_);
  std::swap(synced_, other.synced_);
  std::swap(fault_, other.fault_);
  return *this;
}

UndoLog::~UndoLog() {
  if (file_ >= 0) {
    io_->close(file_);
  }
}

Status UndoLog::append(const RowsLayout& layout, std::span<const int32_t> rows,
                       std::span<const std::byte* const> sections, std::span<std::byte> buffer) {
  const auto n = static_cast<int64_t>(rows.size());
  const Bytes bytes = layout.record_bytes(n);
  XRUN_CHECK(n <= layout.rows_of_record() && bytes <= static_cast<Bytes>(buffer.size()), "a record without room");
  std::byte* to = buffer.data() + kHeadBytes;
  if (!rows.empty()) {
    std::memcpy(to, rows.data(), rows.size_bytes());
    to += rows.size_bytes();
  }
  for (size_t i = 0; i < sections.size() && n > 0; ++i) {
    const auto width = static_cast<size_t>(layout.sections[i].row_bytes);
    for (size_t k = 0; k < rows.size(); ++k) {
      // Rows lie far apart, so each one misses the caches and the TLB; prefetching lets several misses overlap.
      constexpr size_t kAhead = 32;
      __builtin_prefetch(sections[i] + static_cast<size_t>(rows[std::min(k + kAhead, rows.size() - 1)]) * width);
      std::memcpy(to, sections[i] + static_cast<size_t>(rows[k]) * width, width);
      to += width;
    }
  }
  std::memset(to, 0, static_cast<size_t>(buffer.data() + bytes - to));
  const uint64_t numbers[] = {kMagic, static_cast<uint64_t>(end_), static_cast<uint64_t>(synced_), rows.size()};
  std::memcpy(buffer.data() + 16, numbers, sizeof numbers);
  std::memcpy(buffer.data() + 16 + sizeof numbers, header_.log.data(), 32);
  const auto digest = xxh128_bytes(buffer.subspan(16, static_cast<size_t>(bytes) - 16));
  std::memcpy(buffer.data(), digest.data(), digest.size());
  return write(buffer.first(static_cast<size_t>(bytes)));
}

Status UndoLog::before_change() {
  const bool is_first = synced_ == kUndoHeaderBytes;
  return end_ > synced_ && (header_.durable || is_first) ? sync() : Status();
}

Status UndoLog::close() {
  std::byte head[kHeadBytes];
  XRUN_TRY(append({.rows = 1}, {}, {}, head));
  return sync();
}

Status UndoLog::write(std::span<const std::byte> bytes) {
  fault_ = fault_ == 0 ? io_->write(file_, bytes) : fault_;
  if (fault_ != 0) {
    return checkpoint_write_error(path_, fault_);
  }
  end_ += static_cast<Bytes>(bytes.size());
  return {};
}

Status UndoLog::sync() {
  fault_ = fault_ == 0 ? io_->sync(file_) : fault_;
  if (fault_ != 0) {
    return checkpoint_write_error(path_, fault_);
  }
  synced_ = end_;
  return {};
}

Result<UndoReader> UndoReader::open(const std::string& path, const RowsLayout& layout) {
  const int file = open_regular(path, Links::kRefuse);
  switch (-file) {
    case ENOENT:
      return bad_log(path, "is missing: the rows now belong to another checkpoint");
    case ELOOP:
    case EISDIR:
    case ESPIPE:
      return bad_log(path, "is not a regular file");
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
        size_ - at_ < kHeadBytes || (part.magic == kMagic && part.at == static_cast<uint64_t>(at_) &&
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
      return bad_log(path_, "became shorter while it was read");
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
  if (head.magic != kMagic || head.at != static_cast<uint64_t>(at) ||
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

// Searches the rest of a damaged log for a record whose `synced` lies beyond the damage. Such a record shows that the
// damaged part was durable when it was written, so a power cut cannot be the reason.
Result<bool> UndoReader::is_followed_by_records_of_later_syncs() {
  std::vector<uint64_t> words(static_cast<size_t>(std::min(kMiB, size_ - at_)) / sizeof(uint64_t));
  for (Bytes begin = at_; begin < size_; begin += kMiB) {
    const auto count = static_cast<size_t>(std::min(kMiB, size_ - begin)) / sizeof(uint64_t);
    XRUN_TRY(read_at(begin, std::as_writable_bytes(std::span(words).first(count))));
    for (size_t i = 0; i < count; ++i) {
      const Bytes at = begin + static_cast<Bytes>(i * sizeof(uint64_t)) - Bytes{offsetof(Head, magic)};
      if (words[i] != kMagic || at <= at_) {
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
  return bad_log(path_, fmt::format("{} at byte {}", why, at_));
}

}  // namespace xrun::runtime
