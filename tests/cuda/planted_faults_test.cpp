// Faults of lifetimes, launches, copies and contexts that are planted in programs. Each is found with every seed.
#include <thread>

#include "tests/cuda/planted.h"

namespace xrun::cuda {
namespace {

using fake::FaultKind;
using ::testing::HasSubstr;

TEST(PlantedFaults, WrongLifetimesAreFound) {
  run_planted({
      {"memory is freed before a kernel has run",
       FaultKind::kFreedInUse,
       {"cuMemFree_v2, weights: `add` in compute has not run"},
       [](Program& at) {
         at.launch_add(*at.compute, at.input[0]->address());
         at.weights.reset();
       }},
      {"memory is freed after a wait for another stream",
       FaultKind::kFreedInUse,
       {"cuMemFree_v2, input 0: "},
       [](Program& at) {
         at.note(at.compute->fill(at.input[0]->address(), std::byte{0}, kBytes));
         at.note(at.inputs->fill(at.input[1]->address(), std::byte{0}, kBytes));
         at.note(at.inputs->synchronise());
         at.input[0].reset();
       }},
      {"page-locked memory is freed before its copy has ended",
       FaultKind::kFreedInUse,
       {"cuMemFreeHost, batch 0: the host has not waited for cuMemcpyHtoDAsync_v2 in inputs"},
       [](Program& at) {
         at.note(at.inputs->copy_in(at.input[0]->address(), at.batch[0]->bytes()));
         at.batch[0].reset();
       }},
      {"a module is unloaded before its kernel has run",
       FaultKind::kFreedInUse,
       {"cuModuleUnload, module 1: `add` in compute has not run"},
       [](Program& at) {
         at.launch_add(*at.compute, at.input[0]->address());
         at.module.reset();
       }},
      {"a kernel uses memory that was freed",
       FaultKind::kUseAfterFree,
       {"`add` in compute, input 0 + "},
       [](Program& at) {
         const CUdeviceptr address = at.input[0]->address();
         at.input[0].reset();
         at.launch_add(*at.compute, address);
       }},
      {"a copy uses memory that was freed",
       FaultKind::kUseAfterFree,
       {"cuMemsetD8Async in compute, input 0 + 16"},
       [](Program& at) {
         const CUdeviceptr address = at.input[0]->address();
         at.input[0].reset();
         at.note(at.compute->fill(address + 16, std::byte{0}, 16));
       }},
      {"memory is freed twice",
       FaultKind::kUseAfterFree,
       {"cuMemFree_v2, input 0: the memory was freed before"},
       [](Program& at) {
         const CUdeviceptr address = at.input[0]->address();
         at.input[0].reset();
         EXPECT_EQ(at.driver.table().cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
       }},
      {"memory leaks",
       FaultKind::kLeak,
       {"cuDevicePrimaryCtxRelease_v2, buffer 5: it exists"},
       [](Program& at) {
         CUdeviceptr address = 0;
         EXPECT_EQ(at.driver.table().cuMemAlloc_v2(&address, 16), CUDA_SUCCESS);
       }},
      {"page-locked memory leaks",
       FaultKind::kLeak,
       {"cuDevicePrimaryCtxRelease_v2, host buffer 7: it exists"},
       [](Program& at) {
         void* address = nullptr;
         EXPECT_EQ(at.driver.table().cuMemHostAlloc(&address, 16, 0), CUDA_SUCCESS);
       }},
      {"a stream leaks",
       FaultKind::kLeak,
       {"cuDevicePrimaryCtxRelease_v2, stream 4: it exists"},
       [](Program& at) {
         CUstream stream = nullptr;
         EXPECT_EQ(at.driver.table().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
       }},
      {"an event leaks",
       FaultKind::kLeak,
       {"cuDevicePrimaryCtxRelease_v2, event 6: it exists"},
       [](Program& at) {
         CUevent event = nullptr;
         EXPECT_EQ(at.driver.table().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
       }},
      {"a module leaks",
       FaultKind::kLeak,
       {"cuDevicePrimaryCtxRelease_v2, module 2: it exists"},
       [](Program& at) {
         CUmodule module = nullptr;
         EXPECT_EQ(at.driver.table().cuModuleLoadDataEx(&module, add_text().c_str(), 0, nullptr, nullptr),
                   CUDA_SUCCESS);
       }},
      {"a stream is used after its end",
       FaultKind::kHandle,
       {"cuStreamSynchronize: outputs was destroyed"},
       [](Program& at) {
         const CUstream handle = at.outputs->handle();
         at.outputs.reset();
         EXPECT_EQ(at.driver.table().cuStreamSynchronize(handle), CUDA_ERROR_INVALID_HANDLE);
       }},
  });
}

TEST(PlantedFaults, WrongLaunchesAndCopiesAreFound) {
  run_planted({
      {"an argument is missing",
       FaultKind::kLaunch,
       {"cuLaunchKernel of `add` in compute: 28 bytes of arguments for 32 bytes of parameters"},
       [](Program& at) {
         at.note(
             launch(at.add, {}, Arguments(at.out->address(), at.out->address(), at.out->address(), 2.0F), *at.compute));
         EXPECT_THAT(at.error.message, HasSubstr("CUDA_ERROR_INVALID_VALUE"));
       }},
      {"an argument has another size",
       FaultKind::kLaunch,
       {"`add` in compute: 40 bytes of arguments for 32 bytes of parameters"},
       [](Program& at) {
         at.note(launch(at.add, {},
                        Arguments(at.out->address(), at.out->address(), at.out->address(), 2.0, uint64_t{kCount}),
                        *at.compute));
       }},
      {"a block has too much shared memory",
       FaultKind::kLaunch,
       {"`add` in compute: 65536 bytes of dynamic shared memory; the kernel may have 49152"},
       [](Program& at) {
         at.note(launch(at.add, {.shared_bytes = 65536},
                        Arguments(at.out->address(), at.out->address(), at.out->address(), 2.0F, kCount), *at.compute));
       }},
      {"a block has too many threads",
       FaultKind::kLaunch,
       {"`add` in compute: 1 x 1 x 1 blocks of 2048 threads"},
       [](Program& at) {
         at.note(launch(at.add, {.threads = {2048, 1, 1}},
                        Arguments(at.out->address(), at.out->address(), at.out->address(), 2.0F, kCount), *at.compute));
       }},
      {"an index is one too far",
       FaultKind::kKernel,
       {"`add` in compute, input 0 + 256", "outside all buffers"},
       [](Program& at) {
         at.note(launch(at.add, {.blocks = {3, 1, 1}, .threads = {32, 1, 1}},
                        Arguments(at.input[0]->address(), at.weights->address(), at.out->address(), 2.0F, kCount + 1),
                        *at.compute));
       }},
      {"memory that a kernel reads is not set",
       FaultKind::kKernel,
       {"`add` in compute", "the bytes have no value"},
       [](Program& at) {
         const auto fresh = at.make_memory("fresh", std::nullopt);
         at.launch_add(*at.compute, fresh->address());
         at.note(at.context->synchronise());
       }},
      {"a copy reads memory that is not set",
       FaultKind::kUninitialised,
       {"cuMemcpyDtoHAsync_v2 in outputs, fresh + 128: the byte has no value"},
       [](Program& at) {
         const auto fresh = at.make_memory("fresh", std::nullopt);
         at.note(at.outputs->fill(fresh->address(), std::byte{0}, kBytes / 2));
         at.note(at.outputs->copy_out(at.results[0]->bytes(), fresh->address()));
         at.note(at.outputs->synchronise());
       }},
      {"a copy is too long",
       FaultKind::kOutOfBounds,
       {"cuMemsetD8Async in compute, out + 0: no buffer has these 257"},
       [](Program& at) { at.note(at.compute->fill(at.out->address(), std::byte{0}, kBytes + 1)); }},
  });
}

TEST(PlantedFaults, WrongContextsAndStreamsAreFound) {
  run_planted({
      {"no context is current in a thread",
       FaultKind::kContext,
       {"cuMemsetD8Async: no context is current in this thread"},
       [](Program& at) {
         std::thread([&] { at.note(at.compute->fill(at.out->address(), std::byte{0}, kBytes)); }).join();
         EXPECT_EQ(at.error.code, "XG0853");
       }},
      {"the context of another GPU is current",
       FaultKind::kContext,
       {"cuMemsetD8Async: compute belongs to GPU 0, and the context of GPU 1 is current"},
       [](Program& at) {
         const auto other = must(Context::open(at.driver.table(), 1));
         at.note(at.compute->fill(at.out->address(), std::byte{0}, kBytes));
         at.note(at.context->make_current());
       }},
      {"a kernel accesses memory of another GPU",
       FaultKind::kContext,
       {"`add` in compute, other + 0: the kernel runs on GPU 0, and the memory is on GPU 1"},
       [](Program& at) {
         const auto other = must(Context::open(at.driver.table(), 1));
         auto memory = must(GpuMemory::allocate(*other, kBytes));
         at.driver.name(memory->address(), "other");
         const std::vector<float> values = floats(kCount, 0);
         at.note(memory->write(0, std::as_bytes(std::span(values))));
         at.note(at.context->make_current());
         at.launch_add(*at.compute, memory->address());
         at.note(at.context->synchronise());
         memory.reset();
         at.note(at.context->make_current());
       }},
      {"a function of the host calls the driver",
       FaultKind::kHostFunction,
       {"cuStreamSynchronize: a function of the host called the driver"},
       [](Program& at) {
         const auto call = [](void* user_data) {
           const Program& program = *static_cast<Program*>(user_data);
           EXPECT_FALSE(program.outputs->synchronise().ok());
         };
         at.note(at.compute->call(call, &at));
         at.note(at.compute->synchronise());
       }},
      {"the default stream is used",
       FaultKind::kDefaultStream,
       {"cuMemsetD8Async: the default stream"},
       [](Program& at) {
         EXPECT_NE(at.driver.table().cuMemsetD8Async(at.out->address(), 0, 16, nullptr), CUDA_SUCCESS);
       }},
      {"a stream synchronises with the default stream",
       FaultKind::kDefaultStream,
       {"cuStreamCreate: the stream"},
       [](Program& at) {
         CUstream stream = nullptr;
         EXPECT_NE(at.driver.table().cuStreamCreate(&stream, 0), CUDA_SUCCESS);
       }},
  });
}

}  // namespace
}  // namespace xrun::cuda
