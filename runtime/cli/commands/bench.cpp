#include "runtime/cli/commands/bench.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/os/modules.h"

namespace xrun::cli {

Error become_bench(const char* const* argv) {
  const std::string program = program_path("xrun-bench");
  ::execv(program.c_str(), const_cast<char* const*>(argv));  // POSIX: the strings are not changed
  const int fault = errno;
  return fault == ENOENT
             ? world_error("", {"`xrun bench` runs the program `{}`, which does not exist", program},
                           "build the target xrun-bench, or install xrun again: both programs belong in one folder")
             : world_error("", {"`xrun bench` cannot start the program `{}`: {}", program, std::strerror(fault)},
                           "make that file executable, or build or install it again");
}

}  // namespace xrun::cli
