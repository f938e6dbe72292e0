// The file system calls that write durable files and checkpoints. Tests replace them with calls that lose unsynced data
// at a power cut (tests/fault_injection/losing_io.h), or with a file system that lacks a call, as network file systems
// do. Reads need no such layer, since a process reads what it has written, synced or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace xrun {

// The calls. Each returns 0 or an errno, unless its comment says otherwise. A call that a signal interrupts is
// continued.
class Io {
 public:
  virtual ~Io() = default;

  /// Opens a file or a directory. @return the descriptor, or minus an errno.
  virtual int open(const std::string& path, int flags);
  virtual int close(int file);
  /// Writes all of `bytes` at the current offset of the file.
  virtual int write(int file, std::span<const std::byte> bytes);
  /// Makes a file empty.
  virtual int truncate(int file);
  /// Makes a file at least `bytes` long, filled with zeros, and reserves disk space for all of it, so that later writes
  /// into it cannot fail for lack of space.
  virtual int reserve(int file, int64_t bytes);
  /// Makes the bytes of a file, or the names in a directory, survive a power cut.
  virtual int sync(int file);

  virtual int make_directory(const std::string& path);
  virtual int remove_directory(const std::string& path);
  /// Renames a file or a directory. A directory may get a new name or replace an empty directory.
  virtual int rename(const std::string& from, const std::string& to);
  /// Exchanges two directories atomically. Returns EINVAL, ENOSYS or EOPNOTSUPP if the file system has no such call.
  virtual int exchange(const std::string& a, const std::string& b);
  /// Removes the file `name` from an open directory.
  virtual int unlink_in(int directory, const std::string& name);
  int unlink(const std::string& path);

  /// Locks an open file or directory for this process alone. Returns EWOULDBLOCK if another process holds the lock.
  virtual int lock(int file);
};

/// The system's calls.
Io& system_io();

}  // namespace xrun
