// Reads files and archives: whole files, with gzip decompressed (zlib, which checks the checksum of each member), and
// entries of zip archives (libarchive). A file is rejected if it unpacks to more than 1 MiB and also to more than 1,000
// times its size.
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

// The error XG0401 for a path, with the system's reason; kContent if the path does not exist, else kWorld.
Error file_error(std::string_view path, int error_number);

// Returns the first `most` bytes of a file after gunzip; fewer if the file is shorter. To detect a file that is too
// large, ask for one byte more than is allowed. Errors: XG0401; XG0412 broken gzip (damaged, cut short, or followed by
// other bytes); kInterrupted, also if a signal ends a read that waits.
Result<std::vector<std::byte>> read_file(const std::string& path, Bytes most, StopFlag stop = nullptr);

// One file in an archive that is being read.
class ArchiveEntry {
 public:
  virtual ~ArchiveEntry() = default;
  virtual std::string_view name() const = 0;  // path inside the archive
  virtual Bytes bytes() const = 0;            // size according to the archive; 0 if it is unknown
  // Appends the contents, at most `most` bytes. Errors: XG0412 the contents are damaged, encrypted, or longer than
  // `most`; XG0401 the archive cannot be read.
  virtual Status read(std::vector<std::byte>& to, Bytes most) = 0;
  // Appends the first bytes of the contents, at most `most`; the rest is not checked.
  virtual Status read_start(std::vector<std::byte>& to, Bytes most) = 0;
};

// Calls `visit` for every regular file of a zip archive, in the archive's order. Errors: XG0401, XG0412 for the archive
// itself, kInterrupted, and those of `visit`. The second form reads an archive in memory.
Status visit_archive(const std::string& path, StopFlag stop, const std::function<Status(ArchiveEntry&)>& visit);
Status visit_archive(std::span<const std::byte> bytes, const std::function<Status(ArchiveEntry&)>& visit);

}  // namespace xrun::runtime
