// Tests: tests/ptx/races_test.cpp, tests/ptx/accessed_ranges_test.cpp
#include "tests/support/ptx/memory.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "graph/base/check.h"
#include "tests/support/ptx/clocks.h"

namespace xrun::ptx {

namespace {

constexpr uint64_t kGap = uint64_t{1} << 20;

// Accesses that are atomic for each other do not race. Those of `.cta` are so only within a block.
bool atomic_together(const Access& a, const Access& b) {
  const Strength weaker = std::min(a.strength, b.strength);
  return weaker == Strength::kDevice || (weaker == Strength::kBlock && a.block == b.block);
}

}  // namespace

Buffer::Buffer(std::string buffer_name, uint64_t begin, uint64_t bytes, bool is_constant)
    : name(std::move(buffer_name)),
      address(begin),
      constant(is_constant),
      data(bytes),
      granules((bytes + kGranule - 1) / kGranule) {}

void Buffer::set(uint64_t offset, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, data.begin() + static_cast<std::ptrdiff_t>(offset));
  for (uint64_t i = offset; i < offset + bytes.size(); ++i) {
    granules[i / kGranule].valid |= static_cast<uint8_t>(1U << (i % kGranule));
  }
}

uint64_t Memory::add(std::string name, uint64_t bytes) {
  const uint64_t address = next_;
  next_ = (address + bytes + kGap + 255) / 256 * 256;
  buffers_.try_emplace(address, std::move(name), address, bytes, false);
  return address;
}

void Memory::add_variables(const Module& module) {
  for (const Variable& variable : module.variables) {
    const auto [at, fresh] = buffers_.try_emplace(variable.address, variable.name, variable.address, variable.bytes,
                                                  variable.space == Space::kConst);
    if (fresh) {
      std::vector<std::byte> values = variable.initial;
      values.resize(variable.bytes);  // PTX: variables without initial values are zero
      at->second.set(0, values);
    }
  }
}

Buffer* Memory::find(uint64_t address) {
  if (last_ != nullptr && address - last_->address < last_->data.size()) {
    return last_;
  }
  auto after = buffers_.upper_bound(address);
  if (after == buffers_.begin()) {
    return nullptr;
  }
  Buffer& buffer = std::prev(after)->second;
  if (address - buffer.address >= buffer.data.size()) {
    return nullptr;
  }
  last_ = &buffer;
  return last_;
}

const Buffer* Memory::nearest(uint64_t address) const {
  const auto after = buffers_.upper_bound(address);
  return after == buffers_.begin() ? nullptr : &std::prev(after)->second;
}

std::string Memory::difference(const Memory& copy) const {
  for (const auto& [address, buffer] : buffers_) {
    const Buffer& other = copy.buffers_.at(address);
    for (uint64_t i = 0; i < buffer.data.size(); ++i) {
      const auto valid = [&](const Buffer& of) { return (of.granules[i / kGranule].valid >> (i % kGranule) & 1) != 0; };
      if (valid(buffer) != valid(other) || (valid(buffer) && buffer.data[i] != other.data[i])) {
        return buffer.name + " + " + std::to_string(i);
      }
    }
  }
  return "";
}

void Memory::remove(uint64_t address) {
  buffers_.erase(address);
  last_ = nullptr;
}

std::vector<AccessedRange> Memory::accessed() const {
  std::vector<AccessedRange> ranges;
  const auto add = [&](uint64_t address, bool written) {
    if (!ranges.empty() && ranges.back().address + ranges.back().bytes == address && ranges.back().written == written) {
      ++ranges.back().bytes;
    } else {
      ranges.push_back({.address = address, .bytes = 1, .written = written});
    }
  };
  for (const auto& [address, buffer] : buffers_) {
    for (size_t i = 0; i < buffer.granules.size(); ++i) {
      const Granule& granule = buffer.granules[i];
      if (granule.launch != launches_) {
        continue;
      }
      uint32_t read = 0;
      uint32_t written = 0;
      for (const Access& access : granule.accesses) {
        (access.write ? written : read) |= access.bytes;
      }
      for (uint32_t left = read | written; left != 0; left &= left - 1) {
        const auto byte = static_cast<uint32_t>(std::countr_zero(left));
        add(address + i * kGranule + byte, (written >> byte & 1) != 0);
      }
    }
  }
  return ranges;
}

void Memory::write(uint64_t address, std::span<const std::byte> bytes) {
  Buffer* const buffer = find(address);
  XRUN_CHECK(buffer != nullptr && address - buffer->address + bytes.size() <= buffer->data.size(), "outside");
  buffer->set(address - buffer->address, bytes);
}

void Memory::read(uint64_t address, std::span<std::byte> bytes) const {
  const Buffer* const buffer = nearest(address);
  XRUN_CHECK(buffer != nullptr && address - buffer->address + bytes.size() <= buffer->data.size(), "outside");
  std::copy_n(buffer->data.begin() + static_cast<std::ptrdiff_t>(address - buffer->address), bytes.size(),
              bytes.begin());
}

const Access* record(Granule& granule, const Access& access, uint32_t thread, const Clocks& clocks) {
  std::vector<Access>& list = granule.accesses;
  Access* same = nullptr;
  size_t kept = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    Access& other = list[i];
    bool replaced = false;
    if ((other.bytes & access.bytes) != 0) {
      const bool conflict = (other.write || access.write) && !atomic_together(other, access);
      const bool joins = other.block == access.block && other.warp == access.warp && other.clock == access.clock &&
                         other.write == access.write && other.strength == access.strength &&
                         other.bytes == access.bytes && !conflict;
      const bool covered =
          (other.bytes & ~access.bytes) == 0 && (access.write || !other.write) && other.strength >= access.strength;
      if (joins) {
        same = &list[kept];
      } else if (conflict || covered) {
        const bool before = clocks.ordered(other, thread);
        if (conflict && !before) {
          return &other;
        }
        // Whatever is ordered after the new access is also ordered after this one.
        replaced = before && covered;
      }
    }
    if (!replaced) {
      list[kept++] = other;
    }
  }
  list.resize(kept);
  if (same != nullptr) {
    same->lanes |= access.lanes;
  } else {
    list.push_back(access);
  }
  return nullptr;
}

}  // namespace xrun::ptx
