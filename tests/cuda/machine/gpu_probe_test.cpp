// The detection of GPUs in a child process. Each test runs in a process of its own, since the library of the fake
// driver reads its settings once.
#include "runtime/device/cuda/machine/gpu_probe.h"

#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace xrun::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(GpuProbe, TheTextOfGpusIsReadAsItWasPrinted) {
  const Gpus gpus{.found = {{.name = "NVIDIA L4", .memory = 22 * kGiB, .capability = "8.9"},
                            {.name = "a b", .memory = 1, .capability = "12.0"}},
                  .driver = "13.0",
                  .error = "cuda:2: it failed; a fix"};
  EXPECT_EQ(read_gpus(print_gpus(gpus)), gpus);
  EXPECT_EQ(read_gpus(print_gpus(Gpus())), Gpus());
  EXPECT_EQ(read_gpus("gpu\n\nother\t1\n").found.size(), 1) << "a damaged text is read without a fault";
}

TEST(GpuProbe, FindsTheGpusOfTheDriver) {
  setenv("FAKE_CUDA_GPUS", "2", 1);
  const Gpus gpus = GpuProbe(XRUN_FAKE_DRIVER).wait(30);
  unsetenv("FAKE_CUDA_GPUS");
  EXPECT_EQ(gpus.error, "");
  EXPECT_EQ(names_of(gpus), "2 x xrun fake GPU 90");
  EXPECT_EQ(gpus.driver, "13.0");
}

TEST(GpuProbe, AMachineWithoutDriverHasAReason) {
  const auto begin = std::chrono::steady_clock::now();
  const Gpus gpus = GpuProbe("libxrun-no-such-driver.so.1").wait(30);
  EXPECT_THAT(gpus.found, ElementsAre());
  EXPECT_THAT(gpus.error, HasSubstr("cannot be opened"));
  EXPECT_LT(seconds_since(begin), 10) << "an answer ends the wait";
}

TEST(GpuProbe, ADriverThatDoesNotAnswerIsGivenUp) {
  setenv("FAKE_CUDA_BLOCKS", "cuInit", 1);
  const auto begin = std::chrono::steady_clock::now();
  {
    GpuProbe probe(XRUN_FAKE_DRIVER);
    const Gpus gpus = probe.wait(0.5);
    EXPECT_THAT(gpus.found, ElementsAre());
    EXPECT_THAT(gpus.error, HasSubstr("does not answer within"));
  }
  unsetenv("FAKE_CUDA_BLOCKS");
  EXPECT_GE(seconds_since(begin), 0.4);
  EXPECT_LT(seconds_since(begin), 10);
}

TEST(GpuProbe, ADriverThatEndsTheChildIsReported) {
  setenv("FAKE_CUDA_GPUS", "-1", 1);  // no process can have so many
  const Gpus gpus = GpuProbe(XRUN_FAKE_DRIVER).wait(30);
  unsetenv("FAKE_CUDA_GPUS");
  EXPECT_THAT(gpus.found, ElementsAre());
  EXPECT_THAT(gpus.error, HasSubstr("has failed; run `nvidia-smi`"));
}

}  // namespace
}  // namespace xrun::cuda
