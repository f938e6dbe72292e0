// Faults that the PTX machine finds while it executes a kernel, with their place.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace xrun::ptx {

enum class FaultKind {
  kLaunch,                 // the launch exceeds a multiprocessor, or its arguments do not match the kernel
  kUninitialisedRegister,  // a register is read that no instruction of the thread has written
  kUninitialisedMemory,    // bytes are read that have no value
  kOutOfBounds,            // an address outside all buffers, or in a space that the instruction does not access
  kReadOnly,               // a store to parameters or constants
  kMisaligned,             // an address that is not a multiple of the size of the access
  kRace,                   // two accesses, at least one of which writes, that nothing orders
  kPendingCopy,            // an access to bytes that a `cp.async` may still be writing
  kDivergentBarrier,       // threads of a block that have exited or wait elsewhere while others wait at a barrier
  kDivergentWarp,          // threads of a warp that do not reach an instruction which needs all of them
  kArithmetic,             // a result that PTX leaves open: an integer division by zero, a lane that does not take part
  kBudget,                 // more instructions than the launch allows
};

// The name of a kind as it is printed: "data race".
const char* name_of(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kLaunch;
  std::string kernel;
  std::string source;                // "product.cu:27"; empty without `.loc`
  int line = 0;                      // line of the PTX text
  std::string instruction;           // its text
  std::array<uint32_t, 3> block{};   // index of the block in the grid
  std::array<uint32_t, 3> thread{};  // index of the thread in its block
  uint64_t address = 0;              // for faults of memory
  std::string buffer;                // the buffer with the offset: "rows + 9216"; empty for other faults
  std::string cause;                 // a sentence without full stop

  // One line that begins with kernel and source line.
  std::string print() const;
};

}  // namespace xrun::ptx
