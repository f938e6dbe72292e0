// Memory with a record of every byte: whether it has a value, and the accesses that later ones must be ordered after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/support/ptx/ptx_module.h"

namespace xrun::ptx {

// Whether an access is atomic with regard to other threads: not at all, within the block, or within the device.
enum class Strength : uint8_t { kPlain, kBlock, kDevice };

// An access by lanes of one warp at one clock, to some bytes of a granule.
struct Access {
  uint32_t block = 0;
  uint32_t clock = 0;
  uint32_t lanes = 0;
  uint32_t place = 0;  // index of the instruction
  uint16_t warp = 0;
  uint8_t bytes = 0;  // bit i: byte i of the granule
  bool write = false;
  Strength strength = Strength::kPlain;
};

inline constexpr uint64_t kGranule = 4;  // bytes with a common record

struct Granule {
  uint8_t valid = 0;    // bytes that have a value
  uint8_t pending = 0;  // bytes that a `cp.async` may still be writing
  uint32_t launch = 0;  // the launch of the accesses; those of earlier launches happened before
  std::vector<Access> accesses;
};

struct Buffer {
  std::string name;
  uint64_t address = 0;
  bool constant = false;
  bool one_thread = false;  // memory of one thread, whose accesses need no order
  std::vector<std::byte> data;
  std::vector<Granule> granules;

  Buffer(std::string buffer_name, uint64_t begin, uint64_t bytes, bool is_constant);
  // Sets bytes without recording an access.
  void set(uint64_t offset, std::span<const std::byte> bytes);
};

// Bytes that a launch accessed; those that it both read and wrote count as written.
struct AccessedRange {
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool written = false;
};

// The global memory of a device, with the variables of modules. Not thread-safe.
class Memory {
 public:
  Memory() = default;
  // A copy has the same addresses.
  Memory(const Memory& other) : buffers_(other.buffers_), next_(other.next_), launches_(other.launches_) {}
  Memory& operator=(const Memory&) = delete;

  // Adds a buffer without values and returns its address, a multiple of 256. Free addresses lie between two buffers, so
  // that an index that is slightly too large is outside all buffers.
  uint64_t add(std::string name, uint64_t bytes);
  // Adds the variables of a module once. REQUIRES: one module for each Memory.
  void add_variables(const Module& module);

  // Access of the host. REQUIRES: the bytes are in one buffer.
  void write(uint64_t address, std::span<const std::byte> bytes);
  void read(uint64_t address, std::span<std::byte> bytes) const;

  // The buffer with the address; nullptr if there is none.
  Buffer* find(uint64_t address);
  // The buffer that begins nearest before the address; nullptr if there is none.
  const Buffer* nearest(uint64_t address) const;

  // Compares the values of all buffers with those of a copy. Returns the first byte that differs, "x + 64"; empty if
  // there is none. Bytes without a value are equal to each other only.
  std::string difference(const Memory& copy) const;

  // Removes the buffer that begins at the address; `add` does not give the address again.
  void remove(uint64_t address);
  // The bytes that the last launch accessed, in rising order. REQUIRES: it looked for races (Options::races).
  std::vector<AccessedRange> accessed() const;

  // Begins a launch and returns its number, from 1 on.
  uint32_t begin_launch() { return ++launches_; }

 private:
  std::map<uint64_t, Buffer> buffers_;
  uint64_t next_ = kGlobalBase;
  uint32_t launches_ = 0;
  Buffer* last_ = nullptr;  // the buffer that was found last
};

class Clocks;

// Records an access in a granule. Returns an earlier access that nothing orders before it, if there is one.
const Access* record(Granule& granule, const Access& access, uint32_t thread, const Clocks& clocks);

}  // namespace xrun::ptx
