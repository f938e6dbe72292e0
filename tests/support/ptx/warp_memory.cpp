// Accesses of threads to memory, with their checks.
// Tests: tests/ptx/memory_test.cpp, tests/ptx/races_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "tests/support/ptx/block.h"
#include "tests/support/ptx/warp.h"

namespace xrun::ptx {

namespace {

constexpr uint64_t kSpaceBytes = uint64_t{1} << 40;  // each range of generic addresses

bool within(uint64_t address, uint64_t base) { return address - base < kSpaceBytes; }

bool fits(const Buffer& buffer, uint64_t address, Space space) {
  switch (space) {
    case Space::kGeneric:
      return true;
    case Space::kParam:
      return within(address, kParamBase);
    case Space::kShared:
      return within(address, kSharedBase);
    case Space::kGlobal:
      return !within(address, kSharedBase) && !within(address, kParamBase) && !within(address, kLocalBase) &&
             !buffer.constant;
    case Space::kLocal:
      return within(address, kLocalBase);
    case Space::kConst:
      return buffer.constant && !within(address, kParamBase);
  }
  return false;
}

}  // namespace

Buffer* Warp::find(uint32_t lane, uint64_t& address, size_t bytes, size_t align, Space space, bool write) {
  if (space == Space::kShared) {
    address = kSharedBase + static_cast<uint32_t>(address);
  }
  Buffer* const buffer = block_.find(address, thread(lane));
  if (buffer == nullptr || address - buffer->address + bytes > buffer->data.size()) {
    fail(FaultKind::kOutOfBounds, lane, fmt::format("{} bytes are accessed outside all buffers", bytes), address);
    return nullptr;
  }
  if (!fits(*buffer, address, space)) {
    fail(FaultKind::kOutOfBounds, lane, "the address is not in the state space of the instruction", address);
    return nullptr;
  }
  if (address % align != 0) {
    fail(FaultKind::kMisaligned, lane, fmt::format("the address is not a multiple of {}", align), address);
    return nullptr;
  }
  if (write && buffer->constant) {
    fail(FaultKind::kReadOnly, lane, "the buffer is constant", address);
    return nullptr;
  }
  return buffer;
}

bool Warp::touch_granule(Granule& granule, const Access& access, uint32_t lane, uint64_t address, bool needs_value) {
  if ((granule.pending & access.bytes) != 0) {
    fail(FaultKind::kPendingCopy, lane, "a `cp.async` writes these bytes, and its thread has not waited for it",
         address);
    return false;
  }
  if (needs_value && (granule.valid & access.bytes) != access.bytes) {
    fail(FaultKind::kUninitialisedMemory, lane, "the bytes have no value", address);
    return false;
  }
  if (!block_.options().races) {
    return true;
  }
  if (granule.launch != block_.state().number) {
    granule.launch = block_.state().number;
    granule.accesses.clear();
  }
  if (const Access* const other = record(granule, access, thread(lane), block_.clocks()); other != nullptr) {
    const uint32_t their_lane = static_cast<uint32_t>(std::countr_zero(other->lanes));
    fail(FaultKind::kRace, lane,
         fmt::format("nothing orders this {} after the {} of {}", access.write ? "write" : "read",
                     other->write ? "write" : "read",
                     block_.name_of(other->block, other->warp * kLanes + their_lane, other->place)),
         address);
    return false;
  }
  return true;
}

bool Warp::touch(Buffer& buffer, uint32_t lane, uint64_t address, size_t bytes, bool write, bool needs_value,
                 Strength strength) {
  const uint64_t begin = address - buffer.address;
  const uint64_t end = begin + bytes;
  Access access{.block = block_.index(),
                .clock = block_.clocks().clock(thread(lane)),
                .lanes = 1U << lane,
                .place = place_,
                .warp = static_cast<uint16_t>(index_),
                .bytes = 0,
                .write = write,
                .strength = strength};
  for (uint64_t at = begin; at < end;) {
    const uint64_t next = std::min((at / kGranule + 1) * kGranule, end);
    access.bytes = static_cast<uint8_t>(((1U << (next - at)) - 1) << (at % kGranule));
    Granule& granule = buffer.granules[at / kGranule];
    if (buffer.constant || buffer.one_thread) {
      if (needs_value && (granule.valid & access.bytes) != access.bytes) {
        fail(FaultKind::kUninitialisedMemory, lane, "the bytes have no value", buffer.address + at);
        return false;
      }
      granule.valid |= access.bytes;
    } else if (!touch_granule(granule, access, lane, buffer.address + at, needs_value)) {
      return false;
    } else if (write) {
      granule.valid |= access.bytes;
    }
    at = next;
  }
  return true;
}

bool Warp::load(uint32_t lane, uint64_t address, std::span<std::byte> to, Space space, Strength strength) {
  Buffer* const buffer = find(lane, address, to.size(), to.size(), space, false);
  if (buffer == nullptr || !touch(*buffer, lane, address, to.size(), false, true, strength)) {
    return false;
  }
  if (strength != Strength::kPlain) {
    block_.clocks().strong(thread(lane), address, within(address, kSharedBase), true, false);
  }
  std::copy_n(buffer->data.data() + (address - buffer->address), to.size(), to.data());
  return true;
}

bool Warp::store(uint32_t lane, uint64_t address, std::span<const std::byte> from, Space space, Strength strength) {
  Buffer* const buffer = find(lane, address, from.size(), from.size(), space, true);
  if (buffer == nullptr || !touch(*buffer, lane, address, from.size(), true, false, strength)) {
    return false;
  }
  if (strength != Strength::kPlain) {
    block_.clocks().strong(thread(lane), address, within(address, kSharedBase), false, true);
  }
  std::copy_n(from.data(), from.size(), buffer->data.data() + (address - buffer->address));
  return true;
}

std::byte* Warp::atomic(uint32_t lane, uint64_t address, uint32_t bytes, Space space, Strength strength) {
  Buffer* const buffer = find(lane, address, bytes, bytes, space, true);
  if (buffer == nullptr || !touch(*buffer, lane, address, bytes, true, true, strength)) {
    return nullptr;
  }
  block_.clocks().strong(thread(lane), address, within(address, kSharedBase), true, true);
  return buffer->data.data() + (address - buffer->address);
}

void Warp::begin_copy(uint32_t lane, uint64_t to, uint64_t from, uint32_t bytes, uint32_t read_bytes) {
  PendingCopy copy{.address = to, .lane = lane, .group = groups_[lane], .bytes = bytes, .place = place_, .data = {}};
  Buffer* const source = read_bytes == 0 ? nullptr : find(lane, from, read_bytes, bytes, Space::kGlobal, false);
  if (read_bytes != 0) {
    if (source == nullptr || !touch(*source, lane, from, read_bytes, false, true, Strength::kPlain)) {
      return;
    }
    std::copy_n(source->data.data() + (from - source->address), read_bytes, copy.data.data());
  }
  Buffer* const target = find(lane, copy.address, bytes, bytes, Space::kShared, true);
  // The write may happen from now on, so earlier readers must be done.
  if (target == nullptr || !touch(*target, lane, copy.address, bytes, true, false, Strength::kPlain)) {
    return;
  }
  for (uint64_t at = copy.address - target->address; at < copy.address - target->address + bytes; at += kGranule) {
    target->granules[at / kGranule].pending = 0xf;
  }
  copies_.push_back(copy);
}

void Warp::wait_copies(uint32_t lane, uint64_t groups, bool all) {
  for (const PendingCopy& copy : copies_) {
    const bool done = copy.lane == lane && (all || copy.group + groups < groups_[lane]);
    if (!done || failed()) {
      continue;
    }
    Buffer* const target = block_.find(copy.address, thread(lane));
    const uint64_t begin = copy.address - target->address;
    for (uint64_t at = begin; at < begin + copy.bytes; at += kGranule) {
      target->granules[at / kGranule].pending = 0;
    }
    const uint32_t place = std::exchange(place_, copy.place);
    touch(*target, lane, copy.address, copy.bytes, true, false, Strength::kPlain);
    place_ = place;
    std::copy_n(copy.data.data(), copy.bytes, target->data.data() + begin);
  }
  std::erase_if(copies_, [&](const PendingCopy& copy) {
    return copy.lane == lane && (all || copy.group + groups < groups_[lane]);
  });
}

}  // namespace xrun::ptx
