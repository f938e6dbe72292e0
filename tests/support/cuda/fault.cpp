// Tests: tests/cuda/planted_faults_test.cpp
#include "tests/support/cuda/fault.h"

#include <fmt/format.h>

namespace xrun::cuda::fake {

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kUnordered:
      return "unordered accesses";
    case FaultKind::kPageable:
      return "asynchronous copy of pageable memory";
    case FaultKind::kHostAccess:
      return "access by the host";
    case FaultKind::kFreedInUse:
      return "free before the last use";
    case FaultKind::kUseAfterFree:
      return "use after free";
    case FaultKind::kOutOfBounds:
      return "address outside the memory";
    case FaultKind::kUninitialised:
      return "uninitialised memory";
    case FaultKind::kLeak:
      return "leak";
    case FaultKind::kLaunch:
      return "wrong launch";
    case FaultKind::kContext:
      return "wrong context";
    case FaultKind::kHandle:
      return "wrong handle";
    case FaultKind::kDefaultStream:
      return "default stream";
    case FaultKind::kHostFunction:
      return "call in a function of the host";
    case FaultKind::kKernel:
      return "fault of a kernel";
  }
  return "";
}

std::string Fault::print() const {
  std::string text = fmt::format("{}: {}", name_of(kind), call);
  if (!kernel.empty()) {
    text += fmt::format(" of `{}`", kernel);
  }
  if (!stream.empty()) {
    text += " in " + stream;
  }
  if (!buffer.empty()) {
    text += ", " + buffer;
  }
  return text + ": " + cause;
}

}  // namespace xrun::cuda::fake
