// The memory of another process on this host, from which this one copies directly, without a message between the two
// (process_vm_readv). Containers and hardened kernels may forbid that, so a rank tests it first.
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
  // The text with which other processes find this one and test whether they can read its memory.
  static std::string own_place();
  // The process described by that text; nullopt if it is on another host, or its memory cannot be read.
  static std::optional<PeerMemory> open(const std::string& place);

  // Fills `out` with the memory from `address` on. Returns 0, or the error number of the system.
  int read(uint64_t address, std::span<std::byte> out) const;

 private:
  explicit PeerMemory(pid_t process) : process_(process) {}

  pid_t process_;
};

}  // namespace xrun::runtime
