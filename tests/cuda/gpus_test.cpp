// Output of `xrun doctor` about GPUs, and the detection of GPUs.
#include "runtime/device/cuda/machine/gpus.h"

#include <algorithm>
#include <cstdlib>
#include <gmock/gmock.h>

#include "tests/support/cuda/fake_driver.h"

namespace xrun::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kUse = "; without `--devices cuda`, devices are CPU cores";
const Gpu kLarge{.name = "NVIDIA H100 80GB HBM3", .memory = 80 * kGiB, .capability = "9.0"};
const Gpu kSmall{.name = "NVIDIA L4", .memory = 22 * kGiB, .capability = "8.9"};

TEST(Gpus, EqualGpusShareALine) {
  const Gpus gpus{.found = {kLarge, kLarge, kSmall}, .driver = "13.0", .error = ""};
  EXPECT_THAT(describe(gpus),
              ElementsAre("2 x NVIDIA H100 80GB HBM3, 80.0 GiB, compute capability 9.0",
                          "1 x NVIDIA L4, 22.0 GiB, compute capability 8.9", "driver for CUDA 13.0" + kUse));
  EXPECT_EQ(names_of(gpus), "2 x NVIDIA H100 80GB HBM3, 1 x NVIDIA L4");
}

TEST(Gpus, TheReasonIsReportedIfThereAreNoGpus) {
  EXPECT_THAT(describe(Gpus{.found = {}, .driver = "", .error = "no driver; install one"}),
              ElementsAre("none: no driver; install one", "devices are CPU cores"));
  EXPECT_THAT(describe(Gpus{.found = {kSmall}, .driver = "13.0", .error = "cuda:1: it failed"}),
              ElementsAre("1 x NVIDIA L4, 22.0 GiB, compute capability 8.9", "some are missing: cuda:1: it failed",
                          "driver for CUDA 13.0" + kUse));
  EXPECT_EQ(names_of(Gpus{.found = {}, .driver = "13.0", .error = "x"}), "");
}

TEST(Gpus, AGpuThatCannotBeUsedIsMarked) {
  const Gpu old{.name = "Tesla V100-SXM2-16GB", .memory = 16 * kGiB, .capability = "7.0"};
  EXPECT_FALSE(is_usable(old));
  EXPECT_TRUE(is_usable({.name = "", .memory = 0, .capability = "8.0"}));
  EXPECT_TRUE(is_usable({.name = "", .memory = 0, .capability = "12.0"}));
  EXPECT_EQ(describe(Gpus{.found = {old}, .driver = "12.4", .error = ""}).front(),
            "1 x Tesla V100-SXM2-16GB, 16.0 GiB, compute capability 7.0: too low, the kernels need 8.0 or more");
}

TEST(Gpus, HiddenGpusAreReported) {
  setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  const auto lines = describe(Gpus{.found = {kSmall}, .driver = "13.0", .error = ""});
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_THAT(lines,
              ElementsAre("1 x NVIDIA L4, 22.0 GiB, compute capability 8.9",
                          "CUDA_VISIBLE_DEVICES is \"1,0\" and hides all other GPUs", "driver for CUDA 13.0" + kUse));
}

TEST(Gpus, AMachineWithoutDriverReportsWhatToInstall) {
  const Gpus gpus = detect_gpus(std::string("libxrun-no-such-driver.so.1"));
  EXPECT_THAT(gpus.found, ElementsAre());
  EXPECT_EQ(gpus.driver, "");
  EXPECT_THAT(gpus.error, HasSubstr("nvidia-driver"));
  EXPECT_THAT(describe(gpus),
              ElementsAre(StartsWith("none: the GPU driver cannot be opened: "), "devices are CPU cores"));
}

TEST(Gpus, ANameThatTheDriverDoesNotEndIsCut) {
  const fake::FakeDriver fake;
  DriverTable driver = fake.table();
  driver.cuDeviceGetName = [](char* name, int length, CUdevice) {
    std::fill_n(name, length, 'x');
    return CUDA_SUCCESS;
  };
  const Gpus gpus = detect_gpus(driver);
  ASSERT_FALSE(gpus.found.empty());
  EXPECT_EQ(gpus.found[0].name, std::string(255, 'x'));
}

// On this machine, GPUs are found, or an error gives the reason.
TEST(Gpus, ThisMachineHasGpusOrAReason) {
  const Gpus gpus = detect_gpus();
  EXPECT_EQ(gpus.found.empty(), !gpus.error.empty()) << gpus.error;
  for (const Gpu& gpu : gpus.found) {
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_GE(gpu.memory, kGiB);
  }
}

}  // namespace
}  // namespace xrun::cuda
