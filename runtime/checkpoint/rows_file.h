// Class rows in a mapped file, for heads beyond memory, with an undo log in place of a second copy
// (docs/formats.md, "Rows files and undo logs").
//
//   PATH             all rows, mapped into the arena: a kernel changes them there, and the system writes them back
//   PATH.undo-LOG    bytes that rows had at the checkpoint whose manifest names LOG, of all rows changed since
//
// A run that was killed at any time goes back to its newest checkpoint: the system's cache holds what it has written
// into both files. After a power cut the cache is gone. Then rows are restored if none has changed since the
// checkpoint, if the run closed the log, or if the log is durable; otherwise they are refused (XG0717).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/base/io.h"
#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/rows_layout.h"
#include "runtime/checkpoint/owner.h"
#include "runtime/checkpoint/rows_header.h"
#include "runtime/checkpoint/undo_log.h"
#include "runtime/device/mapped_rows.h"

namespace xrun::runtime {

struct RowsFileOptions {
  bool durable = false;  // old bytes are synced before rows change, at a sync a step, so that power cuts lose nothing
  Io* io = &system_io();
  Owner owner = this_process();
};

// The rows as a checkpoint has them, by which its manifest names them.
struct RowsVersion {
  std::string rows;  // id of the file
  std::string log;   // id of its undo log
};

// A save is: write the rest of the checkpoint; prepare_checkpoint of every rows file; rename the manifest, which makes
// the checkpoint count; switch_checkpoint of every rows file. Up to the rename the older checkpoint can be restored,
// and from then on the new one: no row changes in between, so both logs hold.
//
// The file is locked: one process has it at a time. Threads: log_old and read_ahead from any, the others between steps.
class RowsFile final : public MappedRows {
 public:
  // A file of zeros with room on the disk for all of it. A rows file of this name is replaced, and no checkpoint of it
  // can be restored any more. Errors: XG0711 there is no room or no permission, or something else has this name; XG0712
  // another process has it.
  static Result<RowsFile> create(const std::string& path, const RowsLayout& layout, RowsFileOptions options = {});

  // The layout of the file, which it opens for that alone. Errors: XG0710, XG0713, XG0714.
  static Result<RowsHeader> header_of(const std::string& path);

  // The rows as they were at a checkpoint: writes back what the undo log has. When it is killed, or fails, it can be
  // called again. Errors: XG0702 a file of another layout; XG0710 file or log is missing, cut short, damaged or of
  // another file; XG0711 as above; XG0712; XG0713; XG0714; XG0717 the power was cut, or the machine is another one.
  static Result<RowsFile> restore(const std::string& path, const RowsLayout& layout, const RowsVersion& version,
                                  RowsFileOptions options = {});

  RowsFile(RowsFile&& other) noexcept;
  RowsFile& operator=(RowsFile&&) = delete;
  // Closes the log as `close` does.
  ~RowsFile() override;

  // Rows are counted from the first one of the layout. Errors of map: kWorld XG0713; of log_old: XG0711.
  const std::string& path() const override { return path_; }
  const RowsLayout& layout() const override { return header_.layout; }
  Status map(size_t section, int64_t row_begin, int64_t row_end, std::byte* to) override;
  Status log_old(std::span<const int32_t> rows) override;
  void read_ahead(std::span<const int32_t> rows) const override;

  // Bytes [offset, offset + out.size()) of a section. Errors: XG0713.
  Status read(size_t section, Bytes offset, std::span<std::byte> out) const;

  // Makes the rows durable, and an empty log of the checkpoint of `step` beside the one in use. Errors: XG0711.
  Result<RowsVersion> prepare_checkpoint(int64_t step);
  // The manifest counts: the older log goes. REQUIRES: prepare_checkpoint.
  void switch_checkpoint();
  // The manifest was not written: the log in use stays in use, and the new one goes, so that a manifest that is there
  // all the same finds none. Does nothing where no checkpoint was prepared. Errors: XG0711.
  Status give_up_checkpoint();

  // Nothing will change any more: the rows can be restored on any machine to which both files are copied. The caller
  // no longer writes to what is mapped. Errors: XG0711.
  Status close();

  Bytes log_bytes() const { return log_ ? log_->bytes() : 0; }

 private:
  // Rows that were mapped together: where row 0 of each section would lie, null where the section was not mapped.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    std::vector<const std::byte*> sections;
  };

  const Range& range_of(std::span<const int32_t> rows) const;
  RowsFile(std::string path, RowsFileOptions options);
  enum class Lock { kNone, kTaken };
  Status open(int flags, Lock lock = Lock::kTaken);
  Result<RowsHeader> parse_header() const;
  Status read_header(const RowsLayout& layout, const RowsVersion& version);
  Status reserve();
  Status undo(UndoReader& log, bool power_was_cut);
  void make_room();
  void remove_logs(const std::string& but) const;
  std::string log_path(const std::string& log) const { return path_ + ".undo-" + log; }

  std::string path_;
  RowsFileOptions options_;
  int file_ = -1;
  bool has_locks_ = true;  // the file system
  RowsHeader header_;
  std::vector<Range> ranges_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // of log_old
  std::optional<UndoLog> log_;    // of the checkpoint that is restored after a kill
  std::optional<UndoLog> next_;   // of the one that is prepared
  std::vector<uint64_t> logged_;  // a bit a row
  std::vector<int32_t> fresh_;    // rows of the record that is being made
  std::vector<std::byte> record_;
};

}  // namespace xrun::runtime
