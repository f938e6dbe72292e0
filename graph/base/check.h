// Checks of internal invariants. A failed check ends the process, since no caller could continue.
// Failures that a user, a file or a peer can cause are never CHECKed: they are Diagnostics or Errors (result.h).
#pragma once

#include <string_view>

namespace xrun {

// Prints file, line, condition and reason to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view why);

}  // namespace xrun

#define XRUN_CHECK(cond, why) \
  (static_cast<bool>(cond) ? void(0) : ::xrun::check_failed(__FILE__, __LINE__, #cond, (why)))

// A check for inner loops. With NDEBUG the condition is not evaluated; without it, it is checked.
#ifdef NDEBUG
#define XRUN_DCHECK(cond, why) void(0)
#else
#define XRUN_DCHECK(cond, why) XRUN_CHECK(cond, why)
#endif
