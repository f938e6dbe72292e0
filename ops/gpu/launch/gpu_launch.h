// GpuLaunch: one launch of a kernel of a GPU as plain data. Addresses are named by operand, so that one list of
// launches serves all calls of an operator.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/units.h"

namespace xrun::ops::gpu {

struct GpuArgument {
  enum class Kind : uint8_t {
    kInput,      // address of input `operand`, plus `number` bytes
    kOutput,     // likewise of an output
    kScratch,    // address of the working memory, plus `number` bytes
    kFlags,      // address of the flag word, a uint32_t with bits of ops/gpu/update/update_decision.h
    kNumber,     // `number`: the bits of an integer or of a floating-point number
    kSeed,       // KernelCall::seed
    kStep,       // KernelCall::step
    kFirstRow,   // KernelCall::first_row of the first row block
    kLossScale,  // an f32 with the bits `number`, times KernelCall::loss_scale
  };
  Kind kind = Kind::kNumber;
  uint8_t bytes = 8;  // size of the kernel's parameter: 4 or 8
  int32_t operand = 0;
  uint64_t number = 0;
  bool operator==(const GpuArgument&) const = default;
};

struct GpuLaunch {
  std::string_view text;  // PTX; texts with equal addresses are equal
  std::string kernel;     // name of the kernel in the text
  std::array<uint32_t, 3> blocks{1, 1, 1};
  std::array<uint32_t, 3> threads{1, 1, 1};
  uint32_t shared = 0;  // bytes of dynamic shared memory
  std::vector<GpuArgument> arguments;
};

// The addresses and numbers of one call.
struct GpuCall {
  std::span<const uint64_t> inputs;  // a weight is in prepared form if prepared_bytes(i) > 0
  std::span<const uint64_t> outputs;
  uint64_t scratch = 0;
  uint64_t flags = 0;
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_row = 0;
  float loss_scale = 1;
};

// Returns the value of an argument in a call; a parameter of four bytes has it in the lower half.
inline uint64_t value_of(const GpuArgument& argument, const GpuCall& call) {
  switch (argument.kind) {
    case GpuArgument::Kind::kInput:
      return call.inputs[static_cast<size_t>(argument.operand)] + argument.number;
    case GpuArgument::Kind::kOutput:
      return call.outputs[static_cast<size_t>(argument.operand)] + argument.number;
    case GpuArgument::Kind::kScratch:
      return call.scratch + argument.number;
    case GpuArgument::Kind::kFlags:
      return call.flags;
    case GpuArgument::Kind::kNumber:
      return argument.number;
    case GpuArgument::Kind::kSeed:
      return call.seed;
    case GpuArgument::Kind::kStep:
      return static_cast<uint64_t>(call.step);
    case GpuArgument::Kind::kFirstRow:
      return static_cast<uint64_t>(call.first_row);
    case GpuArgument::Kind::kLossScale:
      return std::bit_cast<uint32_t>(std::bit_cast<float>(static_cast<uint32_t>(argument.number)) * call.loss_scale);
  }
  return 0;
}

}  // namespace xrun::ops::gpu
