// The memory of a program, or of a rank's part of it: an arena on each device and one of the host, mapped, and where
// each buffer lies in them.
#pragma once

#include <memory>
#include <vector>

#include "planner/program.h"
#include "runtime/device/device.h"
#include "runtime/device/host_memory.h"

namespace xrun::runtime {

class BoundMemory {
 public:
  // Maps the arenas of `devices` and the host's, all of them or nothing. Program and devices outlive it. Errors:
  // kWorld.
  static Result<BoundMemory> map(const planner::Program& program, const DeviceSet& devices);

  // What a kernel is given for a buffer: of a device an address that only its tasks follow, of the host arena one that
  // everybody may follow.
  std::byte* at(const planner::Buffer& buffer) const;
  std::byte* at(planner::BufferId id) const { return at(program_->buffer(id)); }

  // Whether the arena of a device is here.
  bool has(int device) const { return arenas_[static_cast<size_t>(device)] != nullptr; }
  // Bytes of a device's arena, or of a buffer from `offset` on.
  DeviceMemory& arena(int device) const { return *arenas_[static_cast<size_t>(device)]; }
  void read(planner::BufferId buffer, Bytes offset, std::span<std::byte> out) const;
  void write(planner::BufferId buffer, Bytes offset, std::span<const std::byte> in) const;

  Bytes bytes() const;  // of all arenas, without what lies in files
  // The most that the process had held before the first arena was mapped.
  Bytes peak_before() const { return peak_before_; }

 private:
  const planner::Program* program_ = nullptr;
  Bytes peak_before_ = 0;
  HostMemory host_;
  std::vector<std::unique_ptr<DeviceMemory>> arenas_;  // by device
};

}  // namespace xrun::runtime
