// After the first steps, a step allocates no memory. Counts the calls of operator new from our own code.
#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/session/session.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
TEST(Allocation, AStepAllocatesNothingAfterTheSecond) {
  GTEST_SKIP() << "the operator new of a sanitizer is not replaced";
}
#else

extern "C" char __executable_start;  // NOLINT: names of the linker
extern "C" char etext;

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> counted{0};
std::atomic<void*> first_caller{nullptr};

// Allocations for internal data of oneDNN and TBB, from their libraries, are not counted (docs/internals/memory.md,
// "What the plan counts").
void* allocate(size_t bytes, size_t alignment, void* caller) {
  if (counting.load(std::memory_order_relaxed) && caller >= &__executable_start && caller < &etext) {
    counted.fetch_add(1, std::memory_order_relaxed);
    void* none = nullptr;
    first_caller.compare_exchange_strong(none, caller);
  }
  bytes = bytes == 0 ? 1 : bytes;
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) {
    std::abort();
  }
  return memory;
}

}  // namespace

// GCC does not see that these functions replace a matching pair.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(size_t bytes) { return allocate(bytes, 1, __builtin_return_address(0)); }
void* operator new[](size_t bytes) { return allocate(bytes, 1, __builtin_return_address(0)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace xrun::runtime {
namespace {

TEST(Allocation, AStepAllocatesNothingAfterTheSecond) {
  for (const auto& choice : std::vector<testing::PlanChoice>{
           {},
           {.devices = 2, .threads = 4, .stages = 2, .micro_batches = 4, .shards = 2},
           {.devices = 2, .threads = 2, .replicas = 2, .micro_batches = 4, .pipeline = PipelineKind::kOneFOneB}}) {
    testing::ModelOptions options{.classes = 333, .head = true, .dropout = 0.1};
    options.clip = {.kind = ClipSpec::kNorm, .limit = 1};
    Module module = testing::make_module(options);
    module.train.compress.density = choice.replicas > 1 ? 0.01 : 0;
    const testing::Prepared prepared = testing::prepare_for(module);
    const auto program = testing::make_program(prepared, choice);
    ASSERT_TRUE(program.ok()) << program.error().message;
    const auto devices = make_cpu_devices(program->threads);
    auto session = Session::create(prepared.module, *program, *devices, {.isa = prepared.isa});
    ASSERT_TRUE(session.ok()) << session.error().message;
    (*session)->state().initialise(1);
    ASSERT_TRUE((*session)->weights_changed().ok());
    testing::SyntheticRows rows(prepared.module.graph, options, 100);
    ASSERT_TRUE(rows.start(0, (*session)->ring()).ok());
    for (int step = 0; step < 6; ++step) {
      ASSERT_TRUE(rows.wait(step).ok());
      counting = step >= 2;
      const Status status = (*session)->step(step, 0.1, step % 2);
      counting = false;
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
    const auto at = reinterpret_cast<uintptr_t>(first_caller.load()) - reinterpret_cast<uintptr_t>(&__executable_start);
    EXPECT_EQ(counted.exchange(0), 0) << choice.text() << ": the first from offset 0x" << std::hex << at
                                      << " of the test binary (addr2line)";
    first_caller = nullptr;
  }
}

}  // namespace
}  // namespace xrun::runtime
#endif
