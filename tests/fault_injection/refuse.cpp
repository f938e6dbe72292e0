// Preloaded into xrun (LD_PRELOAD): refuses one allocation or one thread, as a system at its limits does.
//   XRUN_REFUSE=malloc:N        the N-th allocation of the process, counted from 1
//   XRUN_REFUSE=thread:N        the N-th thread
//   XRUN_REFUSE=threads:N       the N-th thread and all after it
//   XRUN_REFUSE_COUNTS=FILE     at the end: "ALLOCATIONS THREADS" of the process
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t step, size_t bytes);
}

namespace {

std::atomic<long> allocations{0};
std::atomic<long> threads{0};
long refused_allocation = -1;
long refused_thread = -1;
long refused_from = -1;

long number_after(const char* text, const char* name) {
  const size_t length = std::strlen(name);
  return text != nullptr && std::strncmp(text, name, length) == 0 ? std::atol(text + length) : -1;
}

[[gnu::constructor]] void read_wish() {
  const char* wish = std::getenv("XRUN_REFUSE");
  refused_allocation = number_after(wish, "malloc:");
  refused_thread = number_after(wish, "thread:");
  refused_from = number_after(wish, "threads:");
}

[[gnu::destructor]] void write_counts() {
  const char* path = std::getenv("XRUN_REFUSE_COUNTS");
  if (path == nullptr) {
    return;
  }
  char text[64];
  const int length = std::snprintf(text, sizeof text, "%ld %ld\n", allocations.load(), threads.load());
  const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::write(file, text, static_cast<size_t>(length)) != length) {
    ::_exit(125);
  }
  ::close(file);
}

bool refuses_allocation() {
  if (allocations.fetch_add(1) + 1 != refused_allocation) {
    return false;
  }
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) { return refuses_allocation() ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return refuses_allocation() ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* old, size_t bytes) { return refuses_allocation() ? nullptr : __libc_realloc(old, bytes); }
void* memalign(size_t step, size_t bytes) { return refuses_allocation() ? nullptr : __libc_memalign(step, bytes); }
void* aligned_alloc(size_t step, size_t bytes) { return memalign(step, bytes); }
int posix_memalign(void** out, size_t step, size_t bytes) {
  *out = memalign(step, bytes);
  return *out == nullptr ? ENOMEM : 0;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  using Function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto start = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "pthread_create"));
  const long number = threads.fetch_add(1) + 1;
  const bool refused = number == refused_thread || (refused_from > 0 && number >= refused_from);
  return refused ? EAGAIN : start(thread, attributes, body, argument);
}
}
