// Preloaded into xrun (LD_PRELOAD): makes calls that never return, like calls to a disk or network that does not
// answer. They hang once the file XRUN_HANG_AFTER exists.
//   XRUN_HANG=open:TEXT   opening a file whose path contains TEXT
//   XRUN_HANG=sync        making a file durable
//   XRUN_HANG=mpi         asking MPI for a message
//   XRUN_HANG=kernel      a worker that runs a kernel of oneDNN
//   XRUN_HANG=lose        no call: one message is lost on its way
#include <atomic>
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

bool is_time(bool meant) { return meant && trigger != nullptr && ::access(trigger, F_OK) == 0; }

void hang_if(bool meant) {
  if (is_time(meant)) {
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

// MPI_Isend(data, count, type, to, tag, communicator, request). A request that is null counts as complete.
int MPI_Isend(const void* data, int count, void* type, int to, int tag, void* communicator, void** request) {
  static std::atomic<bool> lost{false};
  if (is_time(wishes("lose")) && !lost.exchange(true)) {
    *request = ::dlsym(RTLD_DEFAULT, "ompi_request_null");
    return 0;
  }
  return next<int (*)(const void*, int, void*, int, int, void*, void**)>("PMPI_Isend")(data, count, type, to, tag,
                                                                                       communicator, request);
}

// dnnl_primitive_execute(primitive, stream, count, arguments)
int dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments) {
  hang_if(wishes("kernel"));
  return next<int (*)(const void*, void*, int, const void*)>("dnnl_primitive_execute")(primitive, stream, count,
                                                                                       arguments);
}

// MPI_Improbe(source, tag, communicator, flag, message, status)
int MPI_Improbe(int source, int tag, void* communicator, int* flag, void* message, void* status) {
  hang_if(wishes("mpi"));
  return next<int (*)(int, int, void*, int*, void*, void*)>("PMPI_Improbe")(source, tag, communicator, flag, message,
                                                                            status);
}
}
