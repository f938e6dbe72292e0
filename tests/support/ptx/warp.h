// A warp: the registers of its threads, their program counters, and the execution of instructions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/ptx/fault.h"
#include "tests/support/ptx/instruction.h"
#include "tests/support/ptx/memory.h"

namespace xrun::ptx {

class Block;

// Threads of a warp with the same program counter. Threads that branch to different places are in different fragments,
// which join again when they meet.
struct Fragment {
  enum class State : uint8_t {
    kReady,
    kAtBarrier,
    kConverging,  // waits for other threads of the warp at its instruction
  };
  uint32_t lanes = 0;
  uint32_t at = 0;  // index of the next instruction
  State state = State::kReady;
  uint32_t barrier = 0;
};

// Bytes of a `cp.async` that reach shared memory when the thread waits for them.
struct PendingCopy {
  uint64_t address = 0;
  uint32_t lane = 0;
  uint32_t group = 0;
  uint32_t bytes = 0;
  uint32_t place = 0;
  std::array<std::byte, 16> data{};
};

class Warp {
 public:
  Warp(Block& block, uint32_t index, uint32_t lanes);

  // Executes up to `most` instructions, without the lanes in `held`, and returns how many it executed. It stops earlier
  // if all other threads wait or have exited, or at a fault.
  uint64_t run(uint64_t most, uint32_t held);

  // For handlers.
  Register& operator[](uint32_t index) { return registers_[index]; }
  Block& block() { return block_; }
  uint32_t index() const { return index_; }
  uint32_t thread(uint32_t lane) const { return index_ * kLanes + lane; }
  uint32_t lanes() const { return all_; }
  // The lanes that are at the running instruction, with those that its guard excludes.
  uint32_t together() const { return running_; }
  // Reports a fault of a lane at the running instruction. Only the first fault of a launch is kept.
  void fail(FaultKind kind, uint32_t lane, std::string cause, uint64_t address = 0);
  bool failed() const;

  // Reads or writes memory at a generic address with all checks; false at a fault.
  bool load(uint32_t lane, uint64_t address, std::span<std::byte> to, Space space, Strength strength);
  bool store(uint32_t lane, uint64_t address, std::span<const std::byte> from, Space space, Strength strength);
  // An atomic operation: checks, and returns the place of the bytes; nullptr at a fault.
  std::byte* atomic(uint32_t lane, uint64_t address, uint32_t bytes, Space space, Strength strength);

  // cp.async: reads the source now, and writes the destination when the thread waits for its group.
  void begin_copy(uint32_t lane, uint64_t to, uint64_t from, uint32_t bytes, uint32_t read_bytes);
  void commit_copies(uint32_t lane) { ++groups_[lane]; }
  // Completes the copies of a lane except those of the last `groups` committed groups; with `all`, also those without
  // group.
  void wait_copies(uint32_t lane, uint64_t groups, bool all);

  // For the block.
  std::vector<Fragment>& fragments() { return fragments_; }
  uint32_t exited() const { return exited_; }
  // Continues the threads that wait at barrier `id`. `votes` of its `threads` threads voted for it.
  void release(uint32_t id, uint32_t votes, uint32_t threads);

 private:
  Fragment* choose(uint32_t held);
  void join_fragments(uint32_t held);
  bool check_registers(const Instruction& in, uint32_t mask);
  // Executes the next instruction of a fragment; false if it waits instead.
  bool execute(Fragment& fragment);
  bool execute_flow(Fragment& fragment, const Instruction& in, uint32_t mask);
  bool converge(Fragment& fragment, const Instruction& in, uint32_t mask);
  bool meet_barrier(Fragment& fragment, const Instruction& in, uint32_t mask);
  void branch_by_table(Fragment& fragment, const Instruction& in, uint32_t mask);
  void perform(const Instruction& in, uint32_t mask);
  // Lets `lanes` of a fragment continue at `at`; the others stay.
  void move_lanes(Fragment& fragment, uint32_t lanes, uint32_t at);

  // Finds the bytes and checks space, bounds, alignment and kind; nullptr at a fault. Makes `address` generic.
  Buffer* find(uint32_t lane, uint64_t& address, size_t bytes, size_t align, Space space, bool write);
  // Checks and records an access to bytes of a buffer.
  bool touch(Buffer& buffer, uint32_t lane, uint64_t address, size_t bytes, bool write, bool needs_value,
             Strength strength);
  // Like touch for the bytes of one granule.
  bool touch_granule(Granule& granule, const Access& access, uint32_t lane, uint64_t address, bool needs_value);

  Block& block_;
  uint32_t index_;
  uint32_t all_;  // lanes with a thread
  uint32_t exited_ = 0;
  uint32_t running_ = 0;
  uint32_t place_ = 0;  // the running instruction
  std::vector<Register> registers_;
  std::vector<uint32_t> written_;  // for each register, the lanes in which it has a value
  std::vector<Fragment> fragments_;
  std::vector<PendingCopy> copies_;
  std::array<uint32_t, kLanes> groups_{};
};

}  // namespace xrun::ptx
