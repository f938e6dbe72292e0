// A file of class rows that is mapped into memory, for heads that are larger than memory. Checkpoints contain no copy
// of the rows: an undo log restores them (docs/reference/formats.md, "Rows files and undo logs").
//
//   PATH             all rows, mapped into the arena: kernels change them there, and the system writes them to the file
// PATH.undo-LOG    the undo log of the checkpoint whose manifest contains the id LOG: for each row that has changed
// since that checkpoint, the bytes of the row at the checkpoint
//
// If the process is killed, the rows of the newest checkpoint can always be restored, since the system's cache holds
// all writes to both files. A power cut loses the cache. Then rows can be restored only if no row has changed since the
// checkpoint, if the run closed the log, or if the log is durable; otherwise the checkpoint is rejected with XG0717.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/layouts/rows_layout.h"
#include "graph/os/io.h"
#include "runtime/checkpoint/class_rows/class_row_header.h"
#include "runtime/checkpoint/class_rows/undo_log.h"
#include "runtime/checkpoint/files/owner.h"
#include "runtime/device/mapped_rows.h"

namespace xrun::runtime {

class UndoReader;  // runtime/checkpoint/class_rows/undo_reader.h

struct ClassRowFileOptions {
  bool durable = false;  // sync the log before rows change, once per step, so that power cuts lose nothing
  Io* io = &system_io();
  Owner owner = this_process();
};

// Identifies the rows of a checkpoint; stored in its manifest.
struct RowsVersion {
  std::string rows;  // id of the rows file
  std::string log;   // id of its undo log
};

// A save has four parts:
//   1. write the other files of the checkpoint;
//   2. call prepare_checkpoint of every rows file, which creates a new log;
//   3. write the manifest and rename the step directory, which makes the checkpoint valid;
//   4. call switch_checkpoint of every rows file, which removes the older log.
// Before the rename the older checkpoint can be restored, and afterwards the new one: no row changes meanwhile, so both
// logs are valid.
//
// The file is locked for one process, if the file system has locks. Threads: any calls log_old and read_ahead; the
// other calls are made between steps.
class ClassRowFile final : public MappedRows {
 public:
  // Creates a file of zeros, with disk space for all of it. It replaces a rows file of this name, whose checkpoints can
  // then no longer be restored. Errors: XG0711 there is no space or no permission, or the path exists and is not a rows
  // file; XG0712 another process uses it.
  static Result<ClassRowFile> create(const std::string& path, const RowsLayout& layout,
                                     ClassRowFileOptions options = {});

  // Opens the file only to read its header. Errors: XG0710, XG0711 the path is not an ordinary file, XG0713, XG0714.
  static Result<ClassRowHeader> header_of(const std::string& path);

  // Opens the file and restores the rows of a checkpoint: writes the bytes in the undo log back to the file. The call
  // can be repeated after a kill or a failure. Errors: XG0702 the file has another layout; XG0710 the file or its log
  // is missing, truncated or damaged, or they belong to other files; XG0711 and XG0712 as for create; XG0713; XG0714;
  // XG0717 the power was cut since the log was written, or this is another machine.
  static Result<ClassRowFile> restore(const std::string& path, const RowsLayout& layout, const RowsVersion& version,
                                      ClassRowFileOptions options = {});

  ClassRowFile(ClassRowFile&& other) noexcept;
  ClassRowFile& operator=(ClassRowFile&&) = delete;
  // Closes the log like `close`.
  ~ClassRowFile() override;

  // Rows are counted from the first one of the layout. Errors of map: kWorld XG0713; of log_old: XG0711.
  const std::string& path() const override { return path_; }
  const RowsLayout& layout() const override { return header_.layout; }
  Status map(size_t section, int64_t row_begin, int64_t row_end, std::byte* to) override;
  Status log_old(std::span<const int32_t> rows) override;
  void read_ahead(std::span<const int32_t> rows) const override;

  // Reads bytes [offset, offset + out.size()) of a section. Errors: XG0713.
  Status read(size_t section, Bytes offset, std::span<std::byte> out) const;

  // Syncs the rows, and creates an empty log for the checkpoint of `step` next to the log in use. Errors: XG0711.
  Result<RowsVersion> prepare_checkpoint(int64_t step);
  // Call after the step was published: the new log replaces the older one. REQUIRES: prepare_checkpoint was called.
  void switch_checkpoint();
  // Call if publishing the step failed: keeps the log in use and removes the new one, so that the new checkpoint cannot
  // be restored even if it was published after all. Does nothing without a prepared checkpoint. Errors: XG0711.
  Status give_up_checkpoint();

  // Closes log and file. Afterwards the rows can also be restored on another machine to which both files are copied.
  // REQUIRES: the caller no longer writes to mapped rows. Errors: XG0711.
  Status close();

  Bytes log_bytes() const { return log_ ? log_->bytes() : 0; }

 private:
  // A range of rows that one call of `map` has mapped.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    std::vector<const std::byte*> sections;  // the address that row 0 of each section would have; null: not mapped
  };

  const Range& range_of(std::span<const int32_t> rows) const;
  ClassRowFile(std::string path, ClassRowFileOptions options);
  enum class Lock { kNone, kTaken };
  Status open(const std::string& path, int flags, Lock lock = Lock::kTaken);
  Result<ClassRowHeader> parse_header() const;
  Status read_header(const RowsLayout& layout, const RowsVersion& version);
  Status reserve();
  Status undo(UndoReader& log, bool power_was_cut);
  void make_room();
  void remove_leftovers(const std::string& but) const;
  std::string log_path(const std::string& log) const { return path_ + ".undo-" + log; }

  std::string path_;
  ClassRowFileOptions options_;
  int file_ = -1;
  bool has_locks_ = true;  // whether the file system has locks
  ClassRowHeader header_;
  std::vector<Range> ranges_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // one call of log_old at a time
  std::optional<UndoLog> log_;    // log of the checkpoint that is restored after a kill
  std::optional<UndoLog> next_;   // log of the prepared checkpoint
  std::vector<uint64_t> logged_;  // a bit for each row: the row is in the log
  std::vector<int32_t> fresh_;    // rows of the log record that is being made
  std::vector<std::byte> record_;
};

}  // namespace xrun::runtime
