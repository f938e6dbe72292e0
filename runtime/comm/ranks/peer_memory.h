// Access to the memory of another process on this host: this process copies from it directly, without messages that
// carry the data (process_vm_readv). Containers and hardened kernels may forbid that, so a rank tests it first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>

#include "graph/base/units.h"

namespace xrun::runtime {

// A range of the memory of another process.
struct PeerRange {
  uint64_t address = 0;
  Bytes bytes = 0;
};

// Threads: any.
class PeerMemory {
 public:
  // A text that identifies this process, so that other processes can test whether they can read its memory.
  static std::string own_place();
  // Opens the process that has returned `place` from own_place; nullopt if that process is on another host, or its
  // memory cannot be read.
  static std::optional<PeerMemory> open(const std::string& place);

  // Copies the other process's memory at `address` to `out`. Returns 0, or the error number of the system.
  int read(uint64_t address, std::span<std::byte> out) const;

 private:
  explicit PeerMemory(pid_t process) : process_(process) {}

  pid_t process_;
};

}  // namespace xrun::runtime
