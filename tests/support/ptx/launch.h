// Launches of kernels on the PTX machine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tests/support/ptx/fault.h"
#include "tests/support/ptx/memory.h"
#include "tests/support/ptx/mma_model.h"
#include "tests/support/ptx/ptx_module.h"

namespace xrun::ptx {

// The order in which the warps of a block run. Fair orders miss most missing barriers, so most of these are unfair.
enum class Order : uint8_t {
  kFair,        // one instruction of each warp in turn
  kGreedy,      // a warp, chosen at random, runs until it waits
  kReversed,    // the last warp runs until it waits, then the one before
  kThreadLast,  // one thread, chosen at random, runs only when no other can
  kWarpLast,    // likewise one warp
  kRandom,      // a random warp runs a random number of instructions
};
inline constexpr std::array<Order, 6> kOrders{Order::kFair,       Order::kGreedy,   Order::kReversed,
                                              Order::kThreadLast, Order::kWarpLast, Order::kRandom};

struct Options {
  Generation generation = Generation::kH100;
  Order order = Order::kFair;
  uint64_t seed = 1;
  bool races = true;                               // whether accesses that nothing orders are faults
  uint64_t most_instructions = uint64_t{1} << 32;  // counted for each thread of the launch
};

struct Launch {
  std::array<uint32_t, 3> blocks{1, 1, 1};
  std::array<uint32_t, 3> threads{1, 1, 1};
  uint64_t dynamic_shared = 0;        // bytes
  uint32_t registers = 0;             // for each thread, from ptxas; 0 if unknown
  std::vector<uint64_t> arguments;    // one for each parameter of at most 8 bytes
  std::vector<std::byte> parameters;  // instead of arguments: Kernel::parameter_bytes, each from its address on
};

struct Execution {
  std::optional<Fault> fault;
  uint64_t warp_instructions = 0;
  uint64_t thread_instructions = 0;
};

// Executes a kernel of a module on memory and stops at the first fault. Blocks run one after another, in rising order
// for kFair, otherwise reversed or at random, so a kernel whose blocks wait for each other ends with kBudget. REQUIRES:
// `kernel` exists in the module.
Execution execute(const Module& module, std::string_view kernel, const Launch& launch, Memory& memory,
                  const Options& options);

}  // namespace xrun::ptx
