#include "tests/support/ptx/fault.h"

#include <fmt/format.h>

namespace xrun::ptx {

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kLaunch:
      return "wrong launch";
    case FaultKind::kUninitialisedRegister:
      return "uninitialised register";
    case FaultKind::kUninitialisedMemory:
      return "uninitialised memory";
    case FaultKind::kOutOfBounds:
      return "address outside the buffers";
    case FaultKind::kReadOnly:
      return "write to constants";
    case FaultKind::kMisaligned:
      return "misaligned address";
    case FaultKind::kRace:
      return "data race";
    case FaultKind::kPendingCopy:
      return "copy not waited for";
    case FaultKind::kDivergentBarrier:
      return "divergent barrier";
    case FaultKind::kDivergentWarp:
      return "divergent warp";
    case FaultKind::kArithmetic:
      return "undefined result";
    case FaultKind::kBudget:
      return "too many instructions";
  }
  return "fault";
}

std::string Fault::print() const {
  std::string text = kernel;
  if (kind == FaultKind::kLaunch) {
    return fmt::format("{}: {}: {}", text, name_of(kind), cause);
  }
  text += source.empty() ? fmt::format(", PTX line {}", line) : fmt::format(", {} (PTX line {})", source, line);
  text += fmt::format(": {}: block ({}, {}, {}), thread ({}, {}, {})", name_of(kind), block[0], block[1], block[2],
                      thread[0], thread[1], thread[2]);
  if (address != 0) {
    text += fmt::format(", address {:#x}", address);
  }
  if (!buffer.empty()) {
    text += fmt::format(" ({})", buffer);
  }
  return fmt::format("{}: {}; `{}`", text, cause, instruction);
}

}  // namespace xrun::ptx
