// Errors of driver calls: cause, fix and code.
#include "runtime/device/cuda/driver/driver_errors.h"

#include <gmock/gmock.h>
#include <set>
#include <string>

namespace xrun::cuda {
namespace {

using ::testing::HasSubstr;

TEST(DriverErrors, AnErrorHasPlaceCauseAndFix) {
  const Error error = driver_error(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc_v2", "cuda:0: allocating 3.0 GiB");
  EXPECT_EQ(error.code, "XG0854");
  EXPECT_EQ(error.kind, ErrorKind::kWorld);
  EXPECT_EQ(error.message,
            "cuda:0: allocating 3.0 GiB: not enough memory is free (cuMemAlloc_v2 returned "
            "CUDA_ERROR_OUT_OF_MEMORY, 2)");
  EXPECT_THAT(error.help, HasSubstr("nvidia-smi"));
}

TEST(DriverErrors, AFaultOfAKernelMayHaveAnEarlierCause) {
  const Error error = driver_error(CUDA_ERROR_ILLEGAL_ADDRESS, "cuStreamSynchronize", "cuda:1");
  EXPECT_EQ(error.code, "XG0856");
  EXPECT_THAT(error.message, HasSubstr("an earlier call may be the cause"));
  EXPECT_THAT(error.help, HasSubstr("start the command again"));
}

TEST(DriverErrors, AResultThatXrunDoesNotKnowHasTheNameThatTheDriverGives) {
  DriverTable driver;
  driver.cuGetErrorName = [](CUresult result, const char** name) {
    *name = result == static_cast<CUresult>(916) ? "CUDA_ERROR_KEY_ROTATION" : nullptr;
    return CUDA_SUCCESS;
  };
  EXPECT_THAT(driver_error(static_cast<CUresult>(916), "cuInit", "start", &driver).message,
              HasSubstr("cuInit returned CUDA_ERROR_KEY_ROTATION, 916"));
  EXPECT_THAT(driver_error(static_cast<CUresult>(916), "cuInit", "start").message,
              HasSubstr("cuInit returned CUDA_ERROR, 916"));
}

TEST(DriverErrors, SuccessGivesNoError) { EXPECT_TRUE(to_status(CUDA_SUCCESS, "cuInit", "start").ok()); }

// These are the results after which CUDA's documentation says that the process must be ended.
TEST(DriverErrors, FaultsOfKernelsArePermanent) {
  std::set<unsigned> permanent;
  for (unsigned result = 1; result < 1000; ++result) {
    if (is_permanent(static_cast<CUresult>(result))) {
      permanent.insert(result);
    }
  }
  EXPECT_EQ(permanent, (std::set<unsigned>{214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719}));
}

TEST(DriverErrors, EachKnownResultHasItsOwnName) {
  std::set<std::string_view> names;
  for (unsigned result = 1; result < 1000; ++result) {
    const ResultText text = text_of(static_cast<CUresult>(result));
    EXPECT_FALSE(text.cause.empty() || text.fix.empty() || text.code.empty()) << result;
    if (text.name != "CUDA_ERROR") {
      EXPECT_TRUE(names.insert(text.name).second) << text.name;
    }
  }
  EXPECT_EQ(names.size(), 37u);
}

}  // namespace
}  // namespace xrun::cuda
