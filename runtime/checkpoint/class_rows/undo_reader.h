// Reads the undo log of a rows file (runtime/checkpoint/class_rows/undo_log.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/layouts/rows_layout.h"
#include "runtime/checkpoint/class_rows/undo_log.h"

namespace xrun::runtime {

struct UndoRecord {
  std::span<const int32_t> rows;  // numbers of the rows, ascending
  const std::byte* bytes;         // for each section, the bytes of these rows
};

// Reads a log from its start. A log may end with an incomplete record if its writer was killed; the rows of that record
// were not changed. Other damage is an error. Threads: one.
class UndoReader {
 public:
  // Errors: XG0710, XG0713, XG0714.
  static Result<UndoReader> open(const std::string& path, const RowsLayout& layout);
  // Reads an open file, and closes it at the end; `path` is for messages. Errors: those of open.
  static Result<UndoReader> read(int file, const std::string& path, const RowsLayout& layout);
  UndoReader(UndoReader&& other) noexcept;
  UndoReader& operator=(UndoReader&&) = delete;
  ~UndoReader();

  const UndoHeader& header() const { return header_; }
  // Returns the next record, which is valid until the next call; nullopt at the end. With `power_was_cut`, bytes that
  // were not synced may be missing or arbitrary: the log then ends at the first damage. Errors: XG0710, XG0713.
  Result<std::optional<UndoRecord>> next(bool power_was_cut);
  // Whether the writer closed the log. Valid after `next` has returned nullopt.
  bool is_closed() const { return closed_; }
  // Goes back to the first record.
  void rewind();

 private:
  struct Head;
  UndoReader(std::string path, const RowsLayout& layout) : path_(std::move(path)), layout_(layout) {}
  Status read_at(Bytes at, std::span<std::byte> out) const;
  // Returns the head of the record at offset `at`; nullopt if the record is incomplete.
  Result<std::optional<Head>> record_at(Bytes at);
  Result<bool> is_followed_by_records_of_later_syncs();
  Error damaged_at(std::string_view why) const;

  std::string path_;
  RowsLayout layout_;
  UndoHeader header_;
  int file_ = -1;
  Bytes size_ = 0;
  Bytes at_ = kUndoHeaderBytes;
  bool closed_ = false;
  std::vector<std::byte> buffer_;
};

}  // namespace xrun::runtime
