// The undo log of a rows file (docs/reference/formats.md, "Rows files and undo logs"). Before a row changes for the
// first time after a checkpoint, its bytes are appended to the log. Writing them back restores the rows of that
// checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/layouts/rows_layout.h"
#include "graph/os/io.h"
#include "runtime/checkpoint/files/owner.h"

namespace xrun::runtime {

// The first number of a record: "xrunUNDO".
inline constexpr uint64_t kUndoMagic = 0x4f444e556e757278;

struct UndoHeader {
  std::string rows;      // id of the rows file
  std::string log;       // id of the log
  int64_t step = 0;      // step of the checkpoint
  Owner owner;           // the process that appends to the log
  bool durable = false;  // whether records are synced before their rows change

  bool operator==(const UndoHeader&) const = default;
};

std::string print_undo_header(const UndoHeader& header);
// Errors: those of parse_class_row_header.
Result<UndoHeader> parse_undo_header(std::span<const std::byte> start, std::string_view path);

// Writes a log. Threads: one at a time. After a failed call all later calls fail, since the log may end with an
// incomplete record.
class UndoLog {
 public:
  // Creates an empty log, durably. A log of this name is replaced. Errors: XG0711.
  static Result<UndoLog> create(std::string path, const UndoHeader& header, Io& io);
  UndoLog(UndoLog&& other) noexcept;
  UndoLog& operator=(UndoLog&& other) noexcept;
  ~UndoLog();

  // Appends a record with the current bytes of some rows. Errors: XG0711.
  //   rows      ascending, not yet in the log, at most rows_of_record()
  //   sections  the address of each section
  //   buffer    working memory with space for a record
  Status append(const RowsLayout& layout, std::span<const int32_t> rows, std::span<const std::byte* const> sections,
                std::span<std::byte> buffer);
  // Call after `append` and before the rows change. A durable log is synced in each call. Any other log is synced only
  // after its first records, so that even after a power cut a log without records proves that no row has changed.
  // Errors: XG0711.
  Status before_change();
  // Appends a closing record, after which no row may change, and syncs the log. Errors: XG0711.
  Status close();

  const UndoHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  Bytes bytes() const { return end_; }

 private:
  UndoLog(std::string path, UndoHeader header, Io& io) : io_(&io), path_(std::move(path)), header_(std::move(header)) {}
  Status write(std::span<const std::byte> bytes);
  Status sync();

  Io* io_;
  std::string path_;
  UndoHeader header_;
  int file_ = -1;
  Bytes end_ = 0;
  Bytes synced_ = 0;
  int fault_ = 0;  // error number of the call that failed; 0: no failure
};

}  // namespace xrun::runtime
