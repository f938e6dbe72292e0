// The driver library is opened, or the reason is reported if it is missing or does not start.
#include "runtime/device/cuda/driver/driver_open.h"

#include <cstdlib>
#include <gmock/gmock.h>

namespace xrun::cuda {
namespace {

using ::testing::HasSubstr;

// A driver that supports CUDA 12.8 and whose cuInit returns `Result`.
template <CUresult Result>
DriverTable driver_that_gives() {
  DriverTable driver;
  driver.cuDriverGetVersion = [](int* version) {
    *version = 12080;
    return CUDA_SUCCESS;
  };
  driver.cuInit = [](unsigned) { return Result; };
  return driver;
}

// Sets CUDA_VISIBLE_DEVICES for one test.
class Visible {
 public:
  explicit Visible(const char* value) {
    if (const char* const earlier = std::getenv("CUDA_VISIBLE_DEVICES"); earlier != nullptr) {
      earlier_ = earlier;
      was_set_ = true;
    }
    value != nullptr ? setenv("CUDA_VISIBLE_DEVICES", value, 1) : unsetenv("CUDA_VISIBLE_DEVICES");
  }
  ~Visible() { was_set_ ? setenv("CUDA_VISIBLE_DEVICES", earlier_.c_str(), 1) : unsetenv("CUDA_VISIBLE_DEVICES"); }
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;

 private:
  std::string earlier_;
  bool was_set_ = false;
};

TEST(DriverOpen, AMissingLibraryIsReportedWithThePackageToInstall) {
  const auto opened = open_driver("libxrun-no-such-driver.so.1");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, "XG0850");
  EXPECT_EQ(opened.error().kind, ErrorKind::kWorld);
  EXPECT_THAT(opened.error().message, HasSubstr("libxrun-no-such-driver.so.1"));
  EXPECT_THAT(opened.error().help, HasSubstr("nvidia-driver"));
}

// libm is a library that exists on every system and has no function of the driver.
TEST(DriverOpen, ALibraryThatLacksFunctionsIsTooOld) {
  const auto opened = open_driver("libm.so.6");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, "XG0851");
  EXPECT_THAT(opened.error().message, HasSubstr("libm.so.6, lacks the function `cuInit`"));
}

TEST(DriverOpen, ADriverThatIsTooOldIsReportedWithBothVersions) {
  DriverTable driver = driver_that_gives<CUDA_SUCCESS>();
  driver.cuDriverGetVersion = [](int* version) {
    *version = 11040;
    return CUDA_SUCCESS;
  };
  const auto started = start_driver(driver);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, "XG0851");
  EXPECT_THAT(started.error().message, HasSubstr("supports CUDA 11.4, and xrun needs 12.0"));
  EXPECT_THAT(started.error().help, HasSubstr("525"));
}

TEST(DriverOpen, AnEmptyListOfVisibleGpusIsNamed) {
  const Visible visible("");
  const auto started = start_driver(driver_that_gives<CUDA_ERROR_NO_DEVICE>());
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, "XG0852");
  EXPECT_THAT(started.error().message, HasSubstr("CUDA_VISIBLE_DEVICES is \"\""));
  EXPECT_THAT(started.error().help, HasSubstr("unset CUDA_VISIBLE_DEVICES"));
}

TEST(DriverOpen, ADriverWithoutGpusIsReported) {
  const Visible visible(nullptr);
  const auto started = start_driver(driver_that_gives<CUDA_ERROR_NO_DEVICE>());
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, "XG0852");
  EXPECT_THAT(started.error().message, HasSubstr("the driver finds no GPU"));
  EXPECT_THAT(started.error().help, HasSubstr("--gpus all"));
}

TEST(DriverOpen, FailuresOfTheStartHaveTheirCauses) {
  const auto mismatch = start_driver(driver_that_gives<CUDA_ERROR_SYSTEM_DRIVER_MISMATCH>());
  ASSERT_FALSE(mismatch.ok());
  EXPECT_EQ(mismatch.error().code, "XG0850");
  EXPECT_THAT(mismatch.error().message, HasSubstr("kernel module have different versions"));
  const auto stub = start_driver(driver_that_gives<CUDA_ERROR_STUB_LIBRARY>());
  ASSERT_FALSE(stub.ok());
  EXPECT_THAT(stub.error().message, HasSubstr("stub of CUDA's toolkit"));
}

TEST(DriverOpen, ADriverThatStartsReturnsItsVersion) {
  const auto started = start_driver(driver_that_gives<CUDA_SUCCESS>());
  ASSERT_TRUE(started.ok()) << started.error().message;
  EXPECT_EQ(version_text(*started), "12.8");
}

}  // namespace
}  // namespace xrun::cuda
