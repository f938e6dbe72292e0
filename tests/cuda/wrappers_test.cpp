// Contexts, memory, streams, events and kernels on the fake driver.
#include <atomic>
#include <gmock/gmock.h>
#include <thread>

#include "tests/cuda/planted.h"

namespace xrun::cuda {
namespace {

using ::testing::HasSubstr;

TEST(Wrappers, ACorrectProgramHasNoFaultsAndTheRightValuesInTwentyOrders) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Program at({.seed = seed});
    run_program(at, Defect::kNone);
    for (int step = 0; step < Program::kSteps; ++step) {
      EXPECT_EQ(Program::values_of(*at.results[static_cast<size_t>(step)]), Program::expected(step)) << "seed " << seed;
    }
    EXPECT_EQ(print(at.finish()), "") << "seed " << seed;
    EXPECT_EQ(at.error.message, "") << "seed " << seed;
  }
}

TEST(Wrappers, WorkRunsOnlyWhenACallWaitsOrAsks) {
  Program at;
  Program::fill(*at.batch[0], 7);
  at.note(at.inputs->copy_in(at.input[0]->address(), at.batch[0]->bytes()));
  at.note(at.inputs->record(*at.copied[0]));
  EXPECT_FALSE(must(at.copied[0]->ended())) << "the first query runs the copy, and the event is next";
  EXPECT_TRUE(must(at.copied[0]->ended()));
  EXPECT_TRUE(must(at.inputs->ended()));
  std::vector<float> values(kCount);
  at.note(at.input[0]->read(0, std::as_writable_bytes(std::span(values))));
  EXPECT_EQ(values, floats(kCount, 7));
  EXPECT_EQ(print(at.finish()), "");
}

TEST(Wrappers, CopiesAndFillsInTheMemoryOfAGpu) {
  Program at;
  at.note(at.compute->fill(at.input[0]->address(), std::byte{0x41}, kBytes / 2));
  at.note(at.compute->copy(at.input[0]->address() + static_cast<CUdeviceptr>(kBytes / 2), at.weights->address(),
                           kBytes / 2));
  at.note(at.compute->copy_out(at.results[0]->bytes(), at.input[0]->address()));
  at.note(at.compute->synchronise());
  const std::vector<float> values = Program::values_of(*at.results[0]);
  EXPECT_EQ(values[0], 12.078431F);
  EXPECT_EQ(values[kCount / 2], 100);
  EXPECT_EQ(print(at.finish()), "");
}

TEST(Wrappers, FreeMemoryIsCounted) {
  Program at({.memory = 1 << 20});
  const MemoryInfo before = must(at.context->memory());
  EXPECT_EQ(before.total, Bytes{1} << 20);
  EXPECT_EQ(before.free, before.total - 4 * kBytes);
  const auto refused = GpuMemory::allocate(*at.context, Bytes{1} << 20);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0854");
  EXPECT_THAT(refused.error().message, HasSubstr("cuda:0: allocating 1.0 MiB: not enough memory is free"));
  EXPECT_EQ(print(at.finish()), "");
}

TEST(Wrappers, EventsWithTimingMeasureTheWorkBetweenThem) {
  Program at;
  const auto start = must(Event::make(*at.context, Timing::kOn));
  const auto end = must(Event::make(*at.context, Timing::kOn));
  at.note(at.compute->record(*start));
  at.launch_add(*at.compute, at.input[0]->address());
  at.note(at.compute->record(*end));
  at.note(end->synchronise());
  EXPECT_NEAR(must(end->seconds_since(*start)), 2e-6, 1e-9) << "a launch and a record, a microsecond each";
  const auto without = at.copied[0]->seconds_since(*start);
  EXPECT_FALSE(without.ok()) << "the event has no timing";
}

TEST(Wrappers, AFunctionOfTheHostIsCalledInTheOrderOfItsStream) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Program at({.seed = seed});
    struct Seen {
      Program* at;
      std::vector<float> values;
    } seen{.at = &at, .values = {}};
    at.launch_add(*at.compute, at.weights->address());
    at.note(at.compute->copy_out(at.results[0]->bytes(), at.out->address()));
    const auto look = [](void* user_data) {
      auto& one = *static_cast<Seen*>(user_data);
      one.values = Program::values_of(*one.at->results[0]);
    };
    at.note(at.compute->call(look, &seen));
    at.note(at.compute->synchronise());
    ASSERT_EQ(seen.values.size(), kCount);
    EXPECT_EQ(seen.values[1], 101 + 2 * 101);
    EXPECT_EQ(print(at.finish()), "") << "seed " << seed;
  }
}

// The program waits for a flag that a function of the host sets, and does not call the driver while it waits.
TEST(Wrappers, AThreadOfTheDriverCallsFunctionsOfTheHost) {
  Program at({.background = true});
  std::atomic<int> calls = 0;
  for (int i = 0; i < 3; ++i) {
    at.launch_add(*at.compute, at.weights->address());
    at.note(at.compute->call([](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls));
  }
  while (calls < 3) {
    std::this_thread::yield();
  }
  EXPECT_EQ(print(at.finish()), "");
}

TEST(Wrappers, AnotherThreadMakesTheContextCurrent) {
  Program at;
  std::thread([&] {
    at.note(at.context->make_current());
    at.note(at.compute->fill(at.out->address(), std::byte{1}, kBytes));
    at.note(at.compute->synchronise());
  }).join();
  EXPECT_EQ(at.error.message, "");
  EXPECT_EQ(print(at.finish()), "");
}

TEST(Wrappers, AKernelThatTheDriverRefusesIsReportedWithItsLog) {
  Program at;
  const auto wrong = KernelModule::load(
      *at.context, "own.ptx", ".version 8.0\n.target sm_80\n.address_size 64\n.entry own()\n{\nbogus.u32 %r1;\n}\n");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, "XG0855");
  EXPECT_THAT(wrong.error().message, HasSubstr("loading the kernels of own.ptx"));
  EXPECT_THAT(wrong.error().message, HasSubstr("bogus"));
  const auto missing = at.module->find("subtract");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message, HasSubstr("finding the kernel `subtract` of add.ptx"));
  EXPECT_EQ(print(at.finish()), "");
}

TEST(Wrappers, AKernelForANewerGpuIsRefused) {
  Program at({.capability = 80});
  const auto newer = KernelModule::load(*at.context, "new.ptx",
                                        ".version 8.0\n.target sm_90\n.address_size 64\n.entry one()\n{\nret;\n}\n");
  ASSERT_FALSE(newer.ok());
  EXPECT_THAT(newer.error().message, HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU, 209): the kernels are for sm_90"));
  EXPECT_EQ(print(at.finish()), "");
}

TEST(Wrappers, ALaterCallAndAllCallsAfterItReportAFaultOfAKernel) {
  Program at;
  at.launch_add(*at.compute, at.input[0]->address(), kCount - 1);
  EXPECT_EQ(at.error.message, "");
  at.note(launch(at.add, {.blocks = {4, 1, 1}, .threads = {32, 1, 1}},
                 Arguments(at.input[0]->address(), at.weights->address(), at.out->address(), 2.0F, kCount + 1),
                 *at.compute));
  EXPECT_EQ(at.error.message, "") << "the launch itself succeeds";
  at.note(at.compute->synchronise());
  EXPECT_EQ(at.error.code, "XG0856");
  EXPECT_THAT(at.error.message, HasSubstr("cuda:0: waiting for its work: a kernel accessed an address outside its "
                                          "memory (cuStreamSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS, 700)"));
  const Status later = at.outputs->fill(at.out->address(), std::byte{0}, kBytes);
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().code, "XG0856");
  EXPECT_THAT(print(at.finish()), HasSubstr("fault of a kernel: cuLaunchKernel of `add` in compute"));
}

TEST(Wrappers, InjectedErrorsAreReported) {
  Program at({.errors = {{.symbol = "cuMemAlloc_v2", .number = 5, .result = CUDA_ERROR_OUT_OF_MEMORY},
                         {.symbol = "cuStreamSynchronize", .number = 5, .result = CUDA_ERROR_ECC_UNCORRECTABLE}}});
  const auto refused = GpuMemory::allocate(*at.context, kBytes);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0854");
  at.note(at.compute->synchronise());
  EXPECT_THAT(at.error.message, HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE, 214"));
  const Status later = at.context->synchronise();
  ASSERT_FALSE(later.ok());
  EXPECT_THAT(later.error().message, HasSubstr("214"));
}

TEST(Wrappers, KernelsMayUseMoreSharedMemoryOnRequest) {
  Program at;
  EXPECT_TRUE(at.module->find("add", 200 * 1024).ok());
  const auto refused = at.module->find("add", 300 * 1024);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("giving the kernel `add` 300.0 KiB of shared memory"));
  EXPECT_EQ(print(at.finish()), "");
}

TEST(Wrappers, AGpuThatDoesNotExistIsReported) {
  Program at;
  const auto missing = Context::open(at.driver.table(), 1);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, "XG0852");
  EXPECT_THAT(missing.error().message, HasSubstr("cuda:1: there is no such GPU"));
  EXPECT_EQ(print(at.finish()), "");
}

}  // namespace
}  // namespace xrun::cuda
