// The order of accesses to memory that barriers, fences and atomic operations give: vector clocks of one block.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tests/support/ptx/memory.h"

namespace xrun::ptx {

// The clocks of threads of other blocks (and of the own one) that a thread knows, by index of the block.
using Known = std::map<uint32_t, std::shared_ptr<const std::vector<uint32_t>>>;

// Knowledge that atomic operations and strong stores left at addresses. The key has the address and, for fences of
// `.cta` and for shared memory, the index of the block plus one. It lasts for one launch.
using Published = std::map<std::pair<uint64_t, uint32_t>, Known>;

// Each thread has a clock that counts its synchronisations, and knows a clock for each other thread: accesses up to
// that clock happened before. An access is ordered before another exactly if the second thread knows the clock of the
// first. Threads with equal knowledge share it, so a barrier of n threads takes O(n).
class Clocks {
 public:
  Clocks(uint32_t block, uint32_t threads, Published& published);

  uint32_t block() const { return block_; }
  uint32_t clock(uint32_t thread) const { return own_[thread]; }

  // Returns whether all threads of `access` are `thread` itself, or known to it at the access's clock.
  bool ordered(const Access& access, uint32_t thread) const;

  // A barrier or `bar.warp.sync`: everything that these threads did before happened before all that they do now.
  void join(std::span<const uint32_t> threads);

  // A fence: later strong writes publish what the thread did until now, and it acquires what its strong reads met.
  void fence(uint32_t thread, bool block_scope);
  // An atomic operation, strong read or strong write at a generic address. A store without a fence before it ends what
  // others published there.
  void strong(uint32_t thread, uint64_t address, bool shared, bool reads, bool writes);

 private:
  // Clocks of the threads of the block, and of other blocks.
  struct Past {
    std::vector<uint32_t> own;
    Known others;
  };

  Known knowledge(uint32_t thread) const;
  void acquire(uint32_t thread, const Known& known);
  static void merge(Known& to, const Known& from);

  uint32_t block_;
  std::vector<uint32_t> own_;
  std::vector<std::shared_ptr<const Past>> past_;
  std::vector<std::array<Known, 2>> fenced_;   // at the last fence: of the device, of the block
  std::vector<std::array<Known, 2>> pending_;  // read by strong accesses since: likewise
  Published& published_;
};

}  // namespace xrun::ptx
