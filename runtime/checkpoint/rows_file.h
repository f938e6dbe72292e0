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
// The file is locked: one process has it at a time. Threads: one at a time, but read_ahead may run beside anything.
class RowsFile {
 public:
  // A file of zeros with room on the disk for all of it. A rows file of this name is replaced, and no checkpoint of it
  // can be restored any more. Errors: XG0711 there is no room or no permission, or something else has this name; XG0712
  // another process has it.
  static Result<RowsFile> create(const std::string& path, const RowsLayout& layout, RowsFileOptions options = {});

  // The rows as they were at a checkpoint: writes back what the undo log has. When it is killed, or fails, it can be
  // called again. Errors: XG0702 a file of another layout; XG0710 file or log is missing, cut short, damaged or of
  // another file; XG0711 as above; XG0712; XG0713; XG0714; XG0717 the power was cut, or the machine is another one.
  static Result<RowsFile> restore(const std::string& path, const RowsLayout& layout, const RowsVersion& version,
                                  RowsFileOptions options = {});

  RowsFile(RowsFile&& other) noexcept;
  RowsFile& operator=(RowsFile&&) = delete;
  // Closes the log as `close` does.
  ~RowsFile();

  // Maps a section over [to, to + mapped_bytes(section)), pages that the caller has mapped and will unmap. What is
  // written there is in the file. REQUIRES: `to` is aligned to a page. Errors: kWorld XG0713.
  Status map(size_t section, std::byte* to);
  Bytes mapped_bytes(size_t section) const;

  // To be called with all rows that a step may change, ascending, before it changes them: logs those that have not
  // changed since the checkpoint. Before the first checkpoint there is nothing to log. REQUIRES: all sections are
  // mapped. Errors: XG0711; then no row of `rows` may be changed, and the run ends.
  Status log_old(std::span<const int32_t> rows);

  // Asks the system to read rows that a step will use, ascending, and does not wait for them.
  void read_ahead(std::span<const int32_t> rows) const;

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

  const RowsLayout& layout() const { return header_.layout; }
  Bytes log_bytes() const { return log_ ? log_->bytes() : 0; }

 private:
  RowsFile(std::string path, RowsFileOptions options);
  Status open(int flags);
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
  std::vector<const std::byte*> mapped_;  // by section
  std::optional<UndoLog> log_;            // of the checkpoint that is restored after a kill
  std::optional<UndoLog> next_;           // of the one that is prepared
  std::vector<uint64_t> logged_;          // a bit a row
  std::vector<int32_t> fresh_;            // rows of the record that is being made
  std::vector<std::byte> record_;
};

}  // namespace xrun::runtime
