// Preloaded into xrun (LD_PRELOAD): calls that never return, as those of a disk or a network that does not answer. They
// hang from the time at which the file XRUN_HANG_AFTER exists.
//   XRUN_HANG=open:TEXT   opening a file whose path contains TEXT
//   XRUN_HANG=sync        making a file durable
//   XRUN_HANG=mpi         asking MPI for a message
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

const char* wish = nullptr;
const char* trigger = nullptr;

[[gnu::constructor]] void read_wish() {
  wish = std::getenv("XRUN_HANG");
  trigger = std::getenv("XRUN_HANG_AFTER");
}

void hang_if(bool meant) {
  if (meant && trigger != nullptr && ::access(trigger, F_OK) == 0) {
    for (;;) {
      ::pause();
    }
  }
}

bool wishes(const char* what) { return wish != nullptr && std::strcmp(wish, what) == 0; }

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

int open_by(const char* name, const char* path, int flags, unsigned mode) {
  hang_if(wish != nullptr && std::strncmp(wish, "open:", 5) == 0 && std::strstr(path, wish + 5) != nullptr);
  return next<int (*)(const char*, int, ...)>(name)(path, flags, mode);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, unsigned) : 0;
  va_end(arguments);
  return open_by("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, unsigned) : 0;
  va_end(arguments);
  return open_by("open64", path, flags, mode);
}

int fsync(int file) {
  hang_if(wishes("sync"));
  return next<int (*)(int)>("fsync")(file);
}

// MPI_Improbe(source, tag, communicator, flag, message, status)
int MPI_Improbe(int source, int tag, void* communicator, int* flag, void* message, void* status) {
  hang_if(wishes("mpi"));
  return next<int (*)(int, int, void*, int*, void*, void*)>("PMPI_Improbe")(source, tag, communicator, flag, message,
                                                                            status);
}
}
