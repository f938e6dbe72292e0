// Turns LeakSanitizer off in ranks. Open MPI and MPICH leave memory allocated when they end, in plugins that they have
// unloaded by then, so that no suppression can name them. Part of the program in the asan preset; LeakSanitizer calls
// the function when the process ends. Leaks of our code are still found in processes that have not loaded MPI, among
// them the tests that run ranks as threads.
#include <dlfcn.h>
#include <initializer_list>

extern "C" int __lsan_is_turned_off() {
  for (const char* library : {"libmpi.so.40", "libmpich.so.12"}) {
    if (void* const loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD); loaded != nullptr) {
      dlclose(loaded);
      return 1;
    }
  }
  return 0;
}
