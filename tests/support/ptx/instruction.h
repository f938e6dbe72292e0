// Instructions in the form in which warps execute them.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace xrun::ptx {

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t{0};

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

class Warp;
struct Instruction;

// Executes an instruction for the lanes of `mask`. A fault is reported with Warp::fail.
using Handler = void (*)(Warp& warp, const Instruction& instruction, uint32_t mask);

// Steps that need more than the registers of one fragment of a warp.
enum class Flow : uint8_t {
  kNext,      // goes on to the next instruction
  kBranch,    // `target`
  kTable,     // a list of targets, Kernel::tables[target], by the only source
  kExit,      // the threads end
  kBarrier,   // waits for threads of the block; sources: the barrier, a count if `extra` says so, a vote
  kConverge,  // waits for the lanes of the member mask, the last source; or for all lanes of the warp
};

// Instruction::extra of kBarrier: the vote of `bar.red`, and two flags.
enum class BarrierVote : uint8_t { kNone, kCount, kAll, kAny };
inline constexpr uint64_t kBarrierCount = 1 << 8;    // the second source is a count of threads
inline constexpr uint64_t kBarrierNegated = 1 << 9;  // the vote is negated

struct Instruction {
  Handler run = nullptr;
  std::array<uint32_t, 16> reg{};  // destinations, then sources: indices of registers
  uint8_t destinations = 0;
  uint8_t sources = 0;
  Flow flow = Flow::kNext;
  bool guarded = false;
  bool guard_negated = false;
  bool whole_warp = false;  // kConverge and kBarrier: needs all lanes of the warp that have not exited
  uint32_t guard = 0;
  uint32_t target = 0;
  uint64_t offset = 0;  // added to an address
  uint64_t extra = 0;   // a second constant, by instruction
};

// The values of one register in all lanes. A value has its bits at the bottom; the bits above have no meaning.
struct alignas(64) Register {
  std::array<uint64_t, kLanes> lane;
};

// A register whose value is known before the kernel starts.
struct Constant {
  enum class Kind : uint8_t {
    kValue,
    kThread,      // `%tid`; `value` is the dimension here and below
    kThreads,     // `%ntid`
    kBlock,       // `%ctaid`
    kBlocks,      // `%nctaid`
    kLane,        // `%laneid`
    kWarp,        // `%warpid`
    kWarps,       // `%nwarpid`
    kLanesEqual,  // `%lanemask_eq`, and so on
    kLanesLess,
    kLanesLessEqual,
    kLanesGreater,
    kLanesGreaterEqual,
    kDynamicShared,  // `%dynamic_smem_size`
  };
  Kind kind = Kind::kValue;
  uint32_t reg = 0;
  uint64_t value = 0;
};

template <int kBits>
struct BitsOf;
template <>
struct BitsOf<1> {
  using Type = uint8_t;
};
template <>
struct BitsOf<2> {
  using Type = uint16_t;
};
template <>
struct BitsOf<4> {
  using Type = uint32_t;
};
template <>
struct BitsOf<8> {
  using Type = uint64_t;
};

template <class T>
T get(const Register& from, uint32_t lane) {
  return std::bit_cast<T>(static_cast<typename BitsOf<sizeof(T)>::Type>(from.lane[lane]));
}

// Signed values are extended to 64 bits, so that a narrow result is right in a wider register.
template <class T>
void put(Register& to, uint32_t lane, T value) {
  if constexpr (std::is_integral_v<T>) {
    to.lane[lane] = static_cast<uint64_t>(value);
  } else {
    to.lane[lane] = std::bit_cast<typename BitsOf<sizeof(T)>::Type>(value);
  }
}

// Calls run(lane) for the lanes of `mask` in rising order.
template <class Run>
inline void for_lanes(uint32_t mask, const Run& run) {
  if (mask == kAllLanes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      run(lane);
    }
    return;
  }
  for (; mask != 0; mask &= mask - 1) {
    run(static_cast<uint32_t>(std::countr_zero(mask)));
  }
}

}  // namespace xrun::ptx
