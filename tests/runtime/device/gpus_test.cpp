// Output of `xrun doctor` about GPUs, in builds with and without CUDA.
#include "runtime/device/gpus.h"

#include <gmock/gmock.h>

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kNothingRuns = "; nothing runs on a GPU yet: devices are CPU cores";

TEST(Gpus, EqualGpusShareALine) {
  const Gpu large{.name = "NVIDIA H100 80GB HBM3", .memory = 80 * kGiB, .capability = "9.0"};
  const Gpu small{.name = "NVIDIA L4", .memory = 22 * kGiB, .capability = "8.9"};
  const Gpus gpus{.found = {large, large, small}, .driver = "13.0", .runtime = "12.9", .error = ""};
  EXPECT_THAT(describe(gpus), ElementsAre("2 x NVIDIA H100 80GB HBM3, 80.0 GiB, compute capability 9.0",
                                          "1 x NVIDIA L4, 22.0 GiB, compute capability 8.9",
                                          "driver for CUDA 13.0, runtime of CUDA 12.9" + kNothingRuns));
}

TEST(Gpus, TheErrorOfCudaIsReportedIfThereAreNoGpus) {
  EXPECT_THAT(describe(Gpus{.found = {}, .driver = "", .runtime = "13.0", .error = "no driver (cudaErrorX)"}),
              ElementsAre("none: no driver (cudaErrorX)", "no driver, runtime of CUDA 13.0" + kNothingRuns));
  EXPECT_THAT(describe(Gpus{.found = {}, .driver = "13.0", .runtime = "13.0", .error = ""}),
              ElementsAre("none", "driver for CUDA 13.0, runtime of CUDA 13.0" + kNothingRuns));
}

TEST(Gpus, ABuildWithoutCudaReportsHowToBuildWithIt) {
  EXPECT_THAT(describe(std::nullopt), ElementsAre(HasSubstr("cmake --preset cuda")));
}

// The result has GPUs, or an error that says why there are no GPUs.
TEST(Gpus, ABuildWithCudaDetectsGpusOrReportsAnError) {
  const std::optional<Gpus> gpus = detect_gpus();
  if (!gpus) {
    GTEST_SKIP() << "built without CUDA: cmake --preset cuda";
  }
  EXPECT_THAT(gpus->runtime, ::testing::MatchesRegex("[0-9]+\\.[0-9]+"));
  EXPECT_EQ(gpus->found.empty(), !gpus->error.empty()) << gpus->error;
  for (const Gpu& gpu : gpus->found) {
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_GT(gpu.memory, kGiB);
  }
}

}  // namespace
}  // namespace xrun::runtime
