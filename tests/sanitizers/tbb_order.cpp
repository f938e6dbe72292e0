// Reports the order of events that oneTBB guarantees to ThreadSanitizer. libtbb.so is not instrumented, so TSan sees
// neither that the code that spawns a task comes before the task, nor that all tasks come before the end of their wait,
// nor that memory of TBB's pools changes hands. A suppression would not do: libtbb.so is on the stack of every task, so
// it would also hide our own races. In the tsan preset this file is part of the runtime (runtime/CMakeLists.txt) and
// takes the place of the entry points of libtbb.so that TBB's headers call: it wraps each task in one that says
// "acquired" first, and takes memory from malloc.
#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <sanitizer/tsan_interface.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);

namespace tbb::detail::r1 {
namespace {

// Returns the function of libtbb.so that a function of this file replaces.
template <typename... Arguments>
auto behind(const char* mangled) {
  auto* const found = reinterpret_cast<void (*)(Arguments...)>(::dlsym(RTLD_NEXT, mangled));
  if (found == nullptr) {
    std::abort();  // another version of oneTBB: its headers have other entry points
  }
  return found;
}

// Allocates memory that TSan tracks. Does not use `operator new`, whose calls a test counts.
void* aligned(size_t bytes, size_t alignment) {
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

// Wraps a task, and reports to TSan that it runs after the code that spawned it.
class Relay final : public d1::task {
 public:
  static Relay& to(d1::task& given) {
    auto* const relay = new (aligned(sizeof(Relay), d1::task_alignment)) Relay(given);
    __tsan_release(relay);
    return *relay;
  }
  d1::task* execute(d1::execution_data& data) override { return take().execute(data); }
  d1::task* cancel(d1::execution_data& data) override { return take().cancel(data); }

 private:
  explicit Relay(d1::task& given) : given_(&given) {}

  d1::task& take() {
    __tsan_acquire(this);
    d1::task& given = *given_;
    std::free(this);
    return given;
  }

  d1::task* given_;
};

// A wait ends when its count of references, the second word, is zero. Tasks lower the count in TBB's headers, which are
// compiled with our code.
void acquire(d1::wait_context& context) { __tsan_acquire(reinterpret_cast<char*>(&context) + sizeof(uint64_t)); }

}  // namespace

void spawn(d1::task& task, d1::task_group_context& context) {
  static const auto real =
      behind<d1::task&, d1::task_group_context&>("_ZN3tbb6detail2r15spawnERNS0_2d14taskERNS2_18task_group_contextE");
  real(Relay::to(task), context);
}

void spawn(d1::task& task, d1::task_group_context& context, d1::slot_id slot) {
  static const auto real = behind<d1::task&, d1::task_group_context&, d1::slot_id>(
      "_ZN3tbb6detail2r15spawnERNS0_2d14taskERNS2_18task_group_contextEt");
  real(Relay::to(task), context, slot);
}

void enqueue(d1::task& task, d1::task_arena_base* arena) {
  static const auto real =
      behind<d1::task&, d1::task_arena_base*>("_ZN3tbb6detail2r17enqueueERNS0_2d14taskEPNS2_15task_arena_baseE");
  real(Relay::to(task), arena);
}

void execute_and_wait(d1::task& task, d1::task_group_context& task_context, d1::wait_context& wait,
                      d1::task_group_context& wait_context) {
  static const auto real = behind<d1::task&, d1::task_group_context&, d1::wait_context&, d1::task_group_context&>(
      "_ZN3tbb6detail2r116execute_and_waitERNS0_2d14taskERNS2_18task_group_contextERNS2_12wait_contextES6_");
  real(Relay::to(task), task_context, wait, wait_context);
  acquire(wait);
}

void* allocate(d1::small_object_pool*& pool, size_t bytes) {
  static d1::small_object_pool* const none = static_cast<d1::small_object_pool*>(std::malloc(1));
  pool = none;  // never read, but asserted to exist
  return aligned(bytes, d1::task_alignment);
}
void* allocate(d1::small_object_pool*& pool, size_t bytes, const d1::execution_data& /*data*/) {
  return allocate(pool, bytes);
}
void deallocate(d1::small_object_pool& /*pool*/, void* memory, size_t /*bytes*/) { std::free(memory); }
void deallocate(d1::small_object_pool& pool, void* memory, size_t bytes, const d1::execution_data& /*data*/) {
  deallocate(pool, memory, bytes);
}
void* cache_aligned_allocate(size_t bytes) { return aligned(bytes, 128); }
// libtbb.so also frees its own memory here, from threads whose order TSan cannot see.
void cache_aligned_deallocate(void* memory) {
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  std::free(memory);
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}

}  // namespace tbb::detail::r1
