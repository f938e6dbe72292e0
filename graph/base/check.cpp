#include "graph/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace xrun {

void check_failed(const char* file, int line, const char* condition, std::string_view why) {
  std::fprintf(stderr, "internal error[XG0001]: %s:%d: %s: %.*s\n", file, line, condition, static_cast<int>(why.size()),
               why.data());
  std::abort();
}

}  // namespace xrun
