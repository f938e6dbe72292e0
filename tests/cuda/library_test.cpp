// The fake driver as a library that a program opens in place of CUDA's. Each test runs in a process of its own, since
// the library stays open.
#include <cstdlib>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/device/cuda/driver/gpu_memory.h"
#include "runtime/device/cuda/machine/gpus.h"
#include "tests/cuda/fake_program.h"
#include "tests/support/cuda/environment.h"

namespace xrun::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::ExitedWithCode;

// Opens the library and uses a GPU. Does not free some of its memory if `leaks` is set.
void use_gpu(bool leaks) {
  const DriverTable driver = must(open_driver(XRUN_FAKE_DRIVER));
  const auto context = must(Context::open(driver, 0));
  {
    const auto module = must(KernelModule::load(*context, "add.ptx", add_text()));
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

// Each test begins in a new process, also if earlier tests have started threads.
class FakeLibrary : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(FakeLibrary, AProgramOpensItByItsPath) {
  EXPECT_EXIT(
      {
        use_gpu(false);
        std::exit(0);
      },
      ExitedWithCode(0), "^$");
}

TEST_F(FakeLibrary, ItPrintsItsFaultsWhenTheProgramEnds) {
  EXPECT_EXIT(
      {
        use_gpu(true);
        std::exit(0);
      },
      ExitedWithCode(0), "fake driver: leak: cuDevicePrimaryCtxRelease_v2, buffer 2");
}

TEST_F(FakeLibrary, TheEnvironmentDescribesTheGpusThatDoctorPrints) {
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
      ExitedWithCode(0), "2 x xrun fake GPU 100, 1.0 GiB, compute capability 10.0\ndriver for CUDA 13.0; without");
}

TEST_F(FakeLibrary, HiddenGpusAreReportedWithTheVariable) {
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

TEST(FakeEnvironment, VisibleGpusAreThoseThatTheVariableNames) {
  const auto visible = [](const char* value) { return fake::visible_gpus(value, 3); };
  EXPECT_THAT(visible("2,0"), ElementsAre(2, 0));
  EXPECT_THAT(visible("GPU-00000002"), ElementsAre(1)) << "the beginning of a UUID";
  EXPECT_THAT(visible((fake::uuid_of(2) + ",0").c_str()), ElementsAre(2, 0));
  EXPECT_THAT(visible("1,7,0"), ElementsAre(1)) << "an entry without a GPU ends the list";
  EXPECT_THAT(visible("1,x,0"), ElementsAre(1));
  EXPECT_THAT(visible("GPU-0000"), ElementsAre()) << "three GPUs have this beginning";
  EXPECT_THAT(visible("0,0"), ElementsAre());
  EXPECT_THAT(visible(""), ElementsAre());
  EXPECT_THAT(visible("-1"), ElementsAre());
}

}  // namespace
}  // namespace xrun::cuda
