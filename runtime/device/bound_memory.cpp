#include "runtime/device/bound_memory.h"

#include <algorithm>

#include "graph/base/check.h"
#include "runtime/device/host.h"

namespace xrun::runtime {

Result<BoundMemory> BoundMemory::map(const planner::Program& program, const DeviceSet& devices) {
  BoundMemory memory;
  memory.program_ = &program;
  memory.peak_before_ = peak_resident();
  memory.arenas_.resize(static_cast<size_t>(program.devices));
  for (const planner::Arena& arena : program.arenas) {
    if (arena.device == planner::kHost) {
      XRUN_ASSIGN(memory.host_, devices.map_host(arena.bytes));
    } else if (devices.has(arena.device)) {
      XRUN_ASSIGN(memory.arenas_[static_cast<size_t>(arena.device)],
                  devices.device(arena.device).map(arena.bytes, planner::mapped_bytes(program, arena.device)));
    }
  }
  memory.check_places();
  return memory;
}

BoundMemory BoundMemory::shared_with(const planner::Program& program) const {
  BoundMemory memory = *this;
  memory.program_ = &program;
  memory.check_places();
  return memory;
}

void BoundMemory::check_places() const {
  for (const planner::Buffer& buffer : program_->buffers) {
    if (buffer.device != planner::kHost && !has(buffer.device)) {
      continue;
    }
    const Bytes bytes = buffer.device == planner::kHost ? host_->bytes() : arena(buffer.device).bytes();
    XRUN_CHECK(buffer.offset >= 0 && buffer.offset + buffer.bytes <= bytes,
               "buffer " + buffer.name + " lies outside of its arena");
  }
}

std::byte* BoundMemory::at(const planner::Buffer& buffer) const {
  return buffer.device == planner::kHost ? host_->kernel_address(buffer.offset)
                                         : arena(buffer.device).kernel_address(buffer.offset);
}

std::byte* BoundMemory::host_at(const planner::Buffer& buffer) const {
  XRUN_CHECK(buffer.device == planner::kHost, "the host accesses memory of a device by copies");
  return host_->at(buffer.offset);
}

void BoundMemory::read(planner::BufferId id, Bytes offset, std::span<std::byte> out) const {
  const planner::Buffer& buffer = program_->buffer(id);
  if (buffer.device == planner::kHost) {
    std::copy_n(host_->at(buffer.offset + offset), out.size(), out.data());
  } else {
    arena(buffer.device).read(buffer.offset + offset, out);
  }
}

void BoundMemory::write(planner::BufferId id, Bytes offset, std::span<const std::byte> in) const {
  const planner::Buffer& buffer = program_->buffer(id);
  if (buffer.device == planner::kHost) {
    std::copy_n(in.data(), in.size(), host_->at(buffer.offset + offset));
  } else {
    arena(buffer.device).write(buffer.offset + offset, in);
  }
}

Status BoundMemory::status() const {
  for (const auto& arena : arenas_) {
    if (arena != nullptr) {
      XRUN_TRY(arena->status());
    }
  }
  return {};
}

Bytes BoundMemory::bytes() const {
  Bytes total = 0;
  for (const planner::Arena& arena : program_->arenas) {
    total += arena.device == planner::kHost || has(arena.device) ? arena.bytes : 0;
  }
  return total;
}

}  // namespace xrun::runtime
