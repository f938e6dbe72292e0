// Faults that the fake driver finds in the calls of a program, with their place.
#pragma once

#include <string>

namespace xrun::cuda::fake {

enum class FaultKind {
  kUnordered,      // two accesses to a byte, one of which writes, that no stream, event or wait orders
  kPageable,       // an asynchronous copy from or to memory of the host that is not page-locked
  kHostAccess,     // the host accesses memory of a GPU, or page-locked memory that a copy still uses
  kFreedInUse,     // memory or a module is freed before its last use
  kUseAfterFree,   // an address in memory that was freed
  kOutOfBounds,    // an address outside all memory of GPUs
  kUninitialised,  // a copy reads bytes of a GPU that nothing has written
  kLeak,           // memory, streams, events or modules that exist when the last context is released
  kLaunch,         // the arguments or the grid of a launch do not fit the kernel
  kContext,        // no context is current, or a handle is of another context
  kHandle,         // a handle of no object, or of a destroyed one
  kDefaultStream,  // the default stream, or a stream that synchronises with it
  kHostFunction,   // a call of the driver in a function that cuLaunchHostFunc has queued
  kKernel,         // a fault that the PTX machine finds in a kernel
};

// The name of a kind as it is printed: "unordered accesses".
const char* name_of(FaultKind kind);

// Texts are empty where they do not apply.
struct Fault {
  FaultKind kind = FaultKind::kHandle;
  std::string call;    // the function of the driver: "cuMemcpyHtoDAsync_v2"
  std::string stream;  // "stream 1"
  std::string kernel;
  std::string buffer;  // the buffer with the offset: "rows + 64"
  std::string cause;   // a sentence without full stop

  // One line: "unordered accesses: cuLaunchKernel of `add` in stream 2, rows + 64: ...".
  std::string print() const;
};

}  // namespace xrun::cuda::fake
