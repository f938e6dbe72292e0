// Files that outlive a crash: the bytes of a file reach the disk before it replaces an older one.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/os/io.h"

namespace xrun {

using Pieces = std::span<const std::span<const std::byte>>;

/// Writes a whole file, piece after piece, and syncs it. An existing file is overwritten in place.
/// @return 0, or the errno of the first step that failed; the bytes written before it stay.
int write_durably(const std::string& path, Pieces pieces, Io& io = system_io());
int write_durably(const std::string& path, std::span<const std::byte> bytes, Io& io = system_io());

/// Syncs a directory, so that the names in it (files made, renamed, removed) survive a power cut.
/// @return 0, or the errno of the step that failed.
int sync_directory(const std::string& path, Io& io = system_io());

// Describes how result files of one kind are recognised, so that no other file is overwritten.
struct FileKind {
  std::string_view name;  // "plan"
  std::string_view code;  // the code of the errors for files of this kind
  size_t offset = 0;      // position of `magic` in every such file
  std::string_view magic;
  std::string_view flag = "-o";  // the option that names the path
};

/// Checks, before a result of this kind is computed, that it may be written to `path`. Errors: kUsage if `path` exists
/// and is neither empty nor of this kind; kWorld if it has to be made in a directory that does not exist.
Status check_place(const std::string& path, const FileKind& kind);

/// Writes a result to `path`. The bytes go to a new file next to it, which is synced and then renamed, so that a reader
/// sees the old file or the new one, and a failure leaves the old one. Links are followed. Errors: kUsage if `path`
/// exists and is neither empty nor of this kind; kWorld with the system's reason.
Status replace_file(const std::string& path, Pieces pieces, const FileKind& kind);

// A function that writes the next bytes of a file. It returns 0, or the errno of the write that failed.
using ByteSink = std::function<int(std::span<const std::byte>)>;

/// Replaces a file with content that is produced while it is written: `fill` passes its bytes to the sink in order.
/// Errors: those of the function above, and the error of `fill` unless a write had failed before.
Status replace_file(const std::string& path, const FileKind& kind, const std::function<Status(const ByteSink&)>& fill);

/// Replaces the content of an existing ordinary file, as `replace_file` does. The new file has the permissions of the
/// old one, and its owner if that is allowed. Links are followed. @return 0, or the errno of the first step that
/// failed, EACCES also if the file itself may not be written; the old file is then as it was.
int rewrite_file(const std::string& path, std::span<const std::byte> bytes);

// A result that consists of several files. All are written before the first is renamed, so that a failed write leaves
// every old file and nothing else. If a rename fails, earlier files are already replaced.
struct ResultFile {
  std::string path;
  Pieces pieces;
  FileKind kind;
};
Status replace_files(std::span<const ResultFile> files);

}  // namespace xrun
