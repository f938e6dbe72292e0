// A block of threads: its warps, shared memory, barriers and the order in which warps run.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/ptx/clocks.h"
#include "tests/support/ptx/fault.h"
#include "tests/support/ptx/launch.h"
#include "tests/support/ptx/memory.h"
#include "tests/support/ptx/warp.h"

namespace xrun::ptx {

// State that the blocks of a launch share.
struct LaunchState {
  const Module& module;
  const Kernel& kernel;
  const Launch& launch;
  const Options& options;
  Memory& memory;
  Buffer parameters;
  uint32_t number = 0;  // the launch, in records of accesses
  std::mt19937_64 random;
  Published published;
  uint64_t instructions = 0;         // executed by warps
  uint64_t thread_instructions = 0;  // executed by threads
  std::optional<Fault> fault;
};

class Block {
 public:
  Block(LaunchState& state, uint32_t index);

  // Runs all threads to their end, or to the first fault.
  void run();

  // For warps and handlers.
  LaunchState& state() { return state_; }
  const Kernel& kernel() const { return state_.kernel; }
  const Options& options() const { return state_.options; }
  Clocks& clocks() { return clocks_; }
  uint32_t index() const { return index_; }
  uint32_t threads() const { return threads_; }
  // Buffer of a generic address as a thread sees it; nullptr outside all buffers.
  Buffer* find(uint64_t address, uint32_t thread);
  // "rows + 9216", for an address that may be outside.
  std::string describe(uint64_t address) const;
  uint64_t constant(const Constant& constant, uint32_t thread) const;
  // Reports a fault with its place. Only the first one is kept.
  void fail(FaultKind kind, uint32_t thread, uint32_t place, std::string cause, uint64_t address = 0);
  // Returns a thread as messages print it: "thread (3, 0, 0) of block (1, 0, 0) at product.cu:27".
  std::string name_of(uint32_t block, uint32_t thread, uint32_t place) const;
  // Threads of a warp arrive at a barrier; `count` is 0 for all threads of the block, and `votes` of them vote for it.
  // The barrier opens if they are the last.
  void arrive(Warp& warp, uint32_t lanes, uint32_t place, uint32_t id, uint32_t count, uint32_t votes);

 private:
  struct Barrier {
    std::vector<uint32_t> threads;
    uint32_t place = 0;
    uint32_t count = 0;
    uint32_t votes = 0;
  };

  std::array<uint32_t, 3> coordinates_of(uint32_t block) const;
  std::array<uint32_t, 3> thread_of(uint32_t thread) const;
  bool finished();
  // Runs one turn of the schedule; false if no thread can go on.
  bool turn();
  // Lets the warps run in order up to `most` instructions, until one stops before. Returns whether a thread went on;
  // `all` is set if each warp either did all its instructions or none.
  bool turn_of(const std::vector<uint32_t>& order, uint64_t most, uint32_t held, bool& all);
  // Reports the fault that keeps all threads from continuing.
  void report_standstill();
  Buffer* find_local(uint64_t address, uint32_t thread);

  LaunchState& state_;
  uint32_t index_;
  uint32_t threads_;
  Clocks clocks_;
  std::vector<Buffer> shared_;
  std::map<uint32_t, std::vector<Buffer>> local_;  // key: the thread, since its first access
  std::vector<Warp> warps_;
  std::array<Barrier, 16> barriers_;
  uint32_t held_ = 0;  // the thread that runs last
};

}  // namespace xrun::ptx
