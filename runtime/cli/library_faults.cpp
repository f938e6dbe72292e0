#include "runtime/cli/library_faults.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <execinfo.h>
#include <initializer_list>
#include <sys/ucontext.h>
#include <unistd.h>

#include "graph/base/result.h"
#include "runtime/cli/cli.h"

namespace xrun::cli {
namespace {

std::atomic<bool> exit_expected{false};

void write_error(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

// Whether the code at this address belongs to a library that does not check its allocations.
bool is_of_unchecking_library(void* address) {
  Dl_info found{};
  if (::dladdr(address, &found) == 0 || found.dli_fname == nullptr) {
    return false;
  }
  for (const char* name : {"/libhwloc.so", "/libdnnl.so"}) {
    if (std::strstr(found.dli_fname, name) != nullptr) {
      return true;
    }
  }
  return false;
}

extern "C" void on_fault(int number, siginfo_t* /*info*/, void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  if (is_of_unchecking_library(reinterpret_cast<void*>(registers[REG_RIP]))) {
    write_error(
        "error: out of memory in a library\nhelp: `xrun plan` says what a run needs; close other programs or train a "
        "smaller model; if there is enough, please report this\n");
    ::_exit(exit_code(ErrorKind::kWorld));
  }
  std::signal(number, SIG_DFL);  // restores the default; the instruction then runs again and ends the process
}

// Makes glibc find the unwinder of GCC now. It needs it for an exception that passes a function of glibc, such as a
// std::bad_alloc in std::call_once, and aborts the process if there is no memory left to find it.
void prepare_unwinding() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);
}

}  // namespace

void report_library_faults() {
  prepare_unwinding();
  std::set_terminate([] { ::_exit(report_exception()); });
  std::atexit([] {
    if (!exit_expected) {
      ::_exit(exit_code(ErrorKind::kWorld));
    }
  });
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers report faults themselves
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, nullptr);
#endif
}

void expect_exit() { exit_expected = true; }

}  // namespace xrun::cli
