// A log is a header of text, filled up to 4 KiB, and records:
//   digest 16 bytes   XXH3-128 of the rest of the record
//   magic u64         "xrunUNDO"
//   at u64            offset of the record
//   synced u64        offset up to which the log was durable when the record was written
//   rows u64          n; 0 in the record that closes a log
//   log 32 bytes      id of the log, hex digits
//   n x i32           rows, ascending
//   sections          for each section the n old elements
//   zeros up to a multiple of 8
// The rows of each section are stored together, so that a record is read and written front to back.
// Tests: tests/runtime/checkpoint/class_rows/class_row_file_test.cpp
#include "runtime/checkpoint/class_rows/undo_log.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <utility>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/class_rows/class_row_errors.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/own_files.h"
#include "runtime/checkpoint/files/sealed_text.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kKind = "undo";
constexpr int64_t kVersion = 1;
constexpr Bytes kHeadBytes = kUndoRecordHeadBytes;

}  // namespace

std::string print_undo_header(const UndoHeader& header) {
  return seal(fmt::format("xrun {} {}\nrows {}\nlog {}\nstep {}\nowner {}\ndurable {}\n", kKind, kVersion, header.rows,
                          header.log, header.step, to_text(header.owner), header.durable ? 1 : 0),
              static_cast<size_t>(kUndoHeaderBytes));
}

Result<UndoHeader> parse_undo_header(std::span<const std::byte> start, std::string_view path) {
  const auto version = version_of(start, kKind);
  if (!version) {
    return bad_rows_file(path, "is not an undo log, or its header is damaged");
  }
  if (*version > kVersion) {
    return content_error("XG0714", {"{} has version {}; this xrun knows {}", path, *version, kVersion},
                         "use the xrun that wrote it, or a later one");
  }
  if (start.size() < static_cast<size_t>(kUndoHeaderBytes)) {
    return bad_rows_file(path, "is cut short within its header");
  }
  const auto bytes = start.first(static_cast<size_t>(kUndoHeaderBytes));
  const auto lines = unseal(bytes);
  if (!lines) {
    return bad_rows_file(path, "has a damaged header");
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
    return bad_rows_file(path, "has a header that no xrun wrote");
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
  const uint64_t numbers[] = {kUndoMagic, static_cast<uint64_t>(end_), static_cast<uint64_t>(synced_), rows.size()};
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

}  // namespace xrun::runtime
