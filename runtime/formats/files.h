// Files and archives as readers see them: whole contents, gzip undone (zlib, which holds each member to its checksum),
// entries of zip archives (libarchive). Files that unfold to more than 1,000 times their size are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// What the system says of a path: XG0401, the user's fault when it does not exist, the world's otherwise.
Error file_error(std::string_view path, int error_number);

// The first `most` bytes of a file after undoing gzip; fewer where the file is shorter. Who wants the whole file asks
// for one byte more than it may have, and looks. Errors: XG0401, XG0412 (broken gzip: damaged, cut short, or bytes
// behind its last member), kInterrupted, also while a read waits and a signal ends it.
Result<std::vector<std::byte>> read_file(const std::string& path, Bytes most, StopFlag stop = nullptr);

// One file of an archive while it is read.
class ArchiveEntry {
 public:
  virtual ~ArchiveEntry() = default;
  virtual std::string_view name() const = 0;  // path inside the archive
  virtual Bytes bytes() const = 0;            // as the archive says; 0 where it does not
  // Appends its contents, at most `most` bytes. Errors: XG0412 damaged, encrypted, or longer; XG0401 the archive cannot
  // be read.
  virtual Status read(std::vector<std::byte>& to, Bytes most) = 0;
  // Appends its first bytes, at most `most`; what lies behind them is not checked.
  virtual Status read_start(std::vector<std::byte>& to, Bytes most) = 0;
};

// Calls `visit` for every regular file of a zip archive, in the archive's order. Errors: XG0401, XG0412 for the archive
// itself, kInterrupted, and whatever `visit` gives. The second form reads an archive in memory.
Status visit_archive(const std::string& path, StopFlag stop, const std::function<Status(ArchiveEntry&)>& visit);
Status visit_archive(std::span<const std::byte> bytes, const std::function<Status(ArchiveEntry&)>& visit);

}  // namespace xrun::runtime
