// The mapped memory of a program, or of one rank's part of a program: an arena on each device and one on the host, and
// the address of each buffer in these arenas.
#pragma once

#include <memory>
#include <vector>

#include "planner/program/program.h"
#include "runtime/device/device.h"

namespace xrun::runtime {

class BoundMemory {
 public:
  // Maps the arenas of `devices` and the arena of the host. Program and devices outlive the result. Errors: kWorld the
  // system has not enough memory; then nothing stays mapped.
  static Result<BoundMemory> map(const planner::Program& program, const DeviceSet& devices);

  // Returns an object for another program that uses the same memory. That program outlives both objects. REQUIRES: its
  // arenas have the same sizes; only one of the two programs runs at a time.
  BoundMemory shared_with(const planner::Program& program) const;

  // The address of a buffer for instructions. An address in the arena of a device may be dereferenced only by tasks of
  // that device, one in the host arena only by tasks of any device.
  std::byte* at(const planner::Buffer& buffer) const;
  std::byte* at(planner::BufferId id) const { return at(program_->buffer(id)); }
  // The address of a buffer in the host arena for code of the host. REQUIRES: the buffer lies there.
  std::byte* host_at(const planner::Buffer& buffer) const;

  // Whether this process has mapped the arena of this device.
  bool has(int device) const { return arenas_[static_cast<size_t>(device)] != nullptr; }
  // `arena` is the memory of a device. `read` and `write` copy bytes of a buffer, from `offset` in the buffer on.
  DeviceMemory& arena(int device) const { return *arenas_[static_cast<size_t>(device)]; }
  void read(planner::BufferId buffer, Bytes offset, std::span<std::byte> out) const;
  void write(planner::BufferId buffer, Bytes offset, std::span<const std::byte> in) const;

  // Returns the first error of a device's memory (DeviceMemory::status).
  Status status() const;
  Bytes bytes() const;  // size of all arenas, without class rows in files
  // The peak memory of the process before the first arena was mapped.
  Bytes peak_before() const { return peak_before_; }

 private:
  void check_places() const;

  const planner::Program* program_ = nullptr;
  Bytes peak_before_ = 0;
  std::shared_ptr<const HostArena> host_;
  std::vector<std::shared_ptr<DeviceMemory>> arenas_;  // index: device
};

}  // namespace xrun::runtime
