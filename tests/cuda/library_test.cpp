// The fake driver as a library that a program opens in place of CUDA's. Each test runs in a process of its own, since
// the library stays open.
#include <cstdlib>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/device/cuda/gpu_memory.h"
#include "runtime/device/cuda/gpus.h"
#include "tests/cuda/fake_program.h"

namespace xrun::cuda {
namespace {

using ::testing::ExitedWithCode;

// Opens the library and uses a GPU. Does not free some of its memory if `leaks` is set.
void use_gpu(bool leaks) {
  const DriverTable driver = must(open_driver(XRUN_FAKE_DRIVER));
  const auto context = must(Context::open(driver, 0));
  {
    const auto module = must(Module::load(*context, "add.ptx", add_text()));
    const auto stream = must(Stream::make(*context));
    const auto memory = must(GpuMemory::allocate(*context, kBytes));
    const std::vector<float> ones(kCount, 1);
    const Status written = memory->write(0, std::as_bytes(std::span(ones)));
    const CUdeviceptr at = memory->address();
    const Status done = launch(must(module->find("add")), {.blocks = {2, 1, 1}, .threads = {32, 1, 1}},
                               Arguments(at, at, at, 3.0F, kCount), *stream);
    std::vector<float> values(kCount);
    if (!written.ok() || !done.ok() || !stream->synchronise().ok() ||
        !memory->read(0, std::as_writable_bytes(std::span(values))).ok() || values != std::vector<float>(kCount, 4)) {
      std::exit(1);
    }
    CUdeviceptr leaked = 0;
    if (leaks && driver.cuMemAlloc_v2(&leaked, 16) != CUDA_SUCCESS) {
      std::exit(1);
    }
  }
}

TEST(FakeLibrary, AProgramOpensItByItsPath) {
  EXPECT_EXIT(
      {
        use_gpu(false);
        std::exit(0);
      },
      ExitedWithCode(0), "^$");
}

TEST(FakeLibrary, ItPrintsItsFaultsWhenTheProgramEnds) {
  EXPECT_EXIT(
      {
        use_gpu(true);
        std::exit(0);
      },
      ExitedWithCode(0), "fake driver: leak: cuDevicePrimaryCtxRelease_v2, buffer 2");
}

TEST(FakeLibrary, TheEnvironmentDescribesTheGpusThatDoctorPrints) {
  EXPECT_EXIT(
      {
        setenv("FAKE_CUDA_GPUS", "2", 1);
        setenv("FAKE_CUDA_CAPABILITY", "100", 1);
        unsetenv("CUDA_VISIBLE_DEVICES");
        for (const std::string& line : describe(detect_gpus(std::string(XRUN_FAKE_DRIVER)))) {
          fmt::print(stderr, "{}\n", line);
        }
        std::exit(0);
      },
      ExitedWithCode(0), "2 x xrun fake GPU 100, 1.0 GiB, compute capability 10.0\ndriver for CUDA 13.0; nothing runs");
}

TEST(FakeLibrary, HiddenGpusAreReportedWithTheVariable) {
  EXPECT_EXIT(
      {
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
        for (const std::string& line : describe(detect_gpus(std::string(XRUN_FAKE_DRIVER)))) {
          fmt::print(stderr, "{}\n", line);
        }
        std::exit(0);
      },
      ExitedWithCode(0), "none: the driver may use no GPU: CUDA_VISIBLE_DEVICES is \"\"; unset");
}

}  // namespace
}  // namespace xrun::cuda
