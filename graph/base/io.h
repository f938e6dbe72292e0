// The calls that change a file system, as far as durable files and checkpoints need them. Tests put another one in the
// place of the system's: one that loses what was not synced when the power goes (tests/faults/losing_io.h), or one
// that lacks a call, as network file systems do. Reads need no such layer, since a process reads what it has written,
// synced or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace xrun {

// Every call gives 0 or an errno. None of them is cut short by a signal.
class Io {
 public:
  virtual ~Io() = default;

  /// Opens a file or a directory. @return the descriptor, or minus an errno.
  virtual int open(const std::string& path, int flags);
  virtual int close(int file);
  /// Writes all of `bytes` at the place that the descriptor has reached.
  virtual int write(int file, std::span<const std::byte> bytes);
  /// Makes a file empty.
  virtual int truncate(int file);
  /// Makes a file at least `bytes` long, zeros where it was shorter, with room on the disk for all of them: what is
  /// written there later finds no full disk.
  virtual int reserve(int file, int64_t bytes);
  /// Of a file: its bytes outlive a power cut. Of a directory: the names in it do.
  virtual int sync(int file);

  virtual int make_directory(const std::string& path);
  virtual int remove_directory(const std::string& path);
  /// Also of an empty directory, or onto one.
  virtual int rename(const std::string& from, const std::string& to);
  /// Two directories change places at once. EINVAL, ENOSYS or EOPNOTSUPP where the file system has no such call.
  virtual int exchange(const std::string& a, const std::string& b);
  /// Removes a file of an open directory.
  virtual int unlink_in(int directory, const std::string& name);
  int unlink(const std::string& path);

  /// Locks an open file or directory for this process alone. EWOULDBLOCK where another process has it.
  virtual int lock(int file);
};

/// The system's own.
Io& system_io();

}  // namespace xrun
