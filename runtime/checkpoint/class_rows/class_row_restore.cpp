// Restores rows in four steps: read the header and the log, and check that they belong together; read the whole log
// once, to be sure that it is intact; read it again and write the old bytes to the file; replace the log by an empty
// one. All steps can be repeated after an interruption, because the log is replaced last.
// Tests: tests/runtime/checkpoint/class_rows/class_row_file_test.cpp
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/class_rows/class_row_errors.h"
#include "runtime/checkpoint/class_rows/class_row_file.h"
#include "runtime/checkpoint/class_rows/file_mapping.h"
#include "runtime/checkpoint/class_rows/undo_reader.h"
#include "runtime/checkpoint/files/directory.h"

namespace xrun::runtime {
namespace {

// Whether the process `owner` ran after the last boot of this machine. A kernel without a boot id reports zeros, which
// identify no boot.
bool is_of_this_boot(const Owner& owner, const Owner& here) {
  return owner.boot == here.boot && owner.boot.find_first_not_of('0') != std::string::npos;
}

}  // namespace

Result<ClassRowFile> ClassRowFile::restore(const std::string& path, const RowsLayout& layout,
                                           const RowsVersion& version, ClassRowFileOptions options) {
  ClassRowFile made(path, std::move(options));
  XRUN_TRY(made.open(path, O_RDWR));
  XRUN_TRY(made.read_header(layout, version));
  if (!is_digest(version.log)) {
    return bad_rows_file(path, "has an undo log with a malformed name");
  }
  const std::string log_path = made.log_path(version.log);
  XRUN_ASSIGN(UndoReader log, UndoReader::open(log_path, layout));
  const UndoHeader before = log.header();
  if (before.rows != version.rows || before.log != version.log) {
    return bad_rows_file(log_path, "is the undo log of another file");
  }
  if (!made.has_locks_ && !has_ended(before.owner) && is_of_this_boot(before.owner, made.options_.owner)) {
    return rows_file_in_use(
        path, fmt::format("process {} (not certain, since its file system has no locks)", before.owner.pid));
  }
  XRUN_TRY(made.reserve());  // a copied file may have holes, for which no disk space is reserved
  made.make_room();
  XRUN_TRY(made.undo(log, !is_of_this_boot(before.owner, made.options_.owner)));
  const UndoHeader header{version.rows, version.log, before.step, made.options_.owner, made.options_.durable};
  XRUN_ASSIGN(made.log_, UndoLog::create(log_path, header, *made.options_.io));
  made.remove_leftovers(version.log);
  return made;
}

Status ClassRowFile::read_header(const RowsLayout& layout, const RowsVersion& version) {
  XRUN_ASSIGN(header_, parse_header());
  struct stat info {};
  if (::fstat(file_, &info) != 0) {
    return unreadable_rows_file(path_, std::strerror(errno));
  }
  if (header_.id != version.rows) {
    return bad_rows_file(path_, "belongs to another run than the checkpoint");
  }
  if (const std::string other = difference(header_.layout, layout); !other.empty()) {
    return content_error("XG0702", {"{} {}", path_, other},
                         "take the checkpoint of this model, or the model of this checkpoint");
  }
  if (info.st_size != layout.file_bytes()) {
    return bad_rows_file(path_, fmt::format("has {} bytes, not {}", info.st_size, layout.file_bytes()));
  }
  return {};
}

// Writes the old bytes in the log back to the file. Reads the log twice, so that nothing is written before the whole
// log is known to be intact.
Status ClassRowFile::undo(UndoReader& log, bool power_was_cut) {
  const RowsLayout& layout = header_.layout;
  int64_t rows = 0;
  while (true) {
    XRUN_ASSIGN(const auto record, log.next(power_was_cut));
    if (!record) {
      break;
    }
    rows += static_cast<int64_t>(record->rows.size());
    for (const int32_t row : record->rows) {
      uint64_t& bits = logged_[static_cast<size_t>(row) / 64];
      const uint64_t bit = uint64_t{1} << (row % 64);
      if ((bits & bit) != 0) {
        return bad_rows_file(log_path(log.header().log), fmt::format("has row {} twice", row));
      }
      bits |= bit;
    }
  }
  std::ranges::fill(logged_, 0);
  if (power_was_cut && rows > 0 && !log.is_closed() && !log.header().durable) {
    return world_error(
        "XG0717",
        {"{} was in use when the machine stopped, or comes from another machine: rows that have changed "
         "since step {} may be lost",
         path_, log.header().step},
        "start again in another directory, or continue from a copy that was made after the run had ended");
  }
  if (rows == 0) {
    return {};
  }
  const FileMapping whole(file_, layout.file_bytes());
  if (whole.fault() != 0) {
    return unmapped_rows_file(path_, whole.fault());
  }
  log.rewind();
  while (true) {
    XRUN_ASSIGN(const auto record, log.next(power_was_cut));
    if (!record) {
      break;
    }
    const std::byte* from = record->bytes;
    for (size_t i = 0; i < layout.sections.size(); ++i) {
      std::byte* const base = whole.at(layout.offset(i));
      const auto width = static_cast<size_t>(layout.sections[i].row_bytes);
      ask_for_rows(base, layout.sections[i].row_bytes, record->rows);
      for (const int32_t row : record->rows) {
        std::memcpy(base + static_cast<size_t>(row) * width, from, width);
        from += width;
      }
    }
  }
  const int fault = options_.io->sync(file_);
  return fault == 0 ? Status() : checkpoint_write_error(path_, fault);
}

}  // namespace xrun::runtime
