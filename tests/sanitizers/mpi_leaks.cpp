// Turns LeakSanitizer off in ranks. Open MPI and MPICH leave memory allocated when they end, in plugins that they have
// unloaded by then, so that no suppression can name them. Part of the program in the asan preset; LeakSanitizer calls
// the function when the process ends. Leaks of our code are still found in processes that have not loaded MPI, among
// them the tests that run ranks as threads.
#include <link.h>
#include <string_view>

namespace {

// Returns 1, which ends the iteration, if the library is one of MPI.
int is_mpi(dl_phdr_info* library, size_t, void*) {
  const std::string_view path(library->dlpi_name == nullptr ? "" : library->dlpi_name);
  return path.find("/libmpi.so") != path.npos || path.find("/libmpich.so") != path.npos ? 1 : 0;
}

}  // namespace

extern "C" int __lsan_is_turned_off() { return dl_iterate_phdr(is_mpi, nullptr); }
