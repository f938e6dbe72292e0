// `xrun doctor` lists GPUs, or reports why there are none. The driver is that of tests/support/cuda.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;
using Environment = std::vector<std::pair<std::string, std::string>>;

// `xrun doctor` with the fake driver in place of CUDA's.
CommandResult doctor(Environment environment, const std::vector<std::string>& flags = {}) {
  environment.emplace_back("LD_LIBRARY_PATH", XRUN_BINARY_DIR "/fake_cuda");
  std::vector<std::string> words{"doctor"};
  words.insert(words.end(), flags.begin(), flags.end());
  return run_xrun(words, {.environment = environment});
}

TEST(GpusOfTheMachine, DoctorListsThem) {
  const CommandResult result = doctor({{"FAKE_CUDA_GPUS", "2"}, {"FAKE_CUDA_MEMORY_MIB", "2048"}});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("\n  gpu      2 x xrun fake GPU 90, 2.0 GiB, compute capability 9.0\n"
                        "           driver for CUDA 13.0; without `--devices cuda`, devices are CPU cores\n"));
  EXPECT_EQ(result.err, "");
  const auto json = nlohmann::json::parse(doctor({{"FAKE_CUDA_CAPABILITY", "100"}}, {"--format", "json"}).out);
  EXPECT_EQ(json["gpus"].dump(), R"([{"capability":"10.0","memory":1073741824,"name":"xrun fake GPU 100"}])");
  EXPECT_EQ(json["cuda"].dump(), R"({"driver":"13.0","error":""})");
}

TEST(GpusOfTheMachine, DoctorReportsTheReasonIfThereAreNoGpus) {
  EXPECT_THAT(doctor({{"CUDA_VISIBLE_DEVICES", ""}}).out,
              HasSubstr("none: the driver may use no GPU: CUDA_VISIBLE_DEVICES is \"\"; unset CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(doctor({{"FAKE_CUDA_VERSION", "11040"}}).out,
              HasSubstr("none: the GPU driver supports CUDA 11.4, and xrun needs 12.0; install version 525"));
}

TEST(GpusOfTheMachine, ADamagedDriverIsReportedWithWhatToInstall) {
  const TemporaryDirectory folder;
  folder.write("libcuda.so.1", "no library");
  const CommandResult result = run_xrun({"doctor"}, {.environment = {{"LD_LIBRARY_PATH", folder.path()}}});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("gpu      none: the GPU driver cannot be opened: "));
  EXPECT_THAT(result.out, HasSubstr("libcuda.so.1"));
  EXPECT_THAT(result.out, HasSubstr("install NVIDIA's driver"));
}

TEST(GpusOfTheMachine, DoctorListsThoseThatAreVisible) {
  EXPECT_THAT(doctor({{"FAKE_CUDA_GPUS", "3"},
                      {"FAKE_CUDA_NAMES", "NVIDIA L4,NVIDIA H200,NVIDIA L40S"},
                      {"CUDA_VISIBLE_DEVICES", "2,1"}})
                  .out,
              HasSubstr("\n  gpu      1 x NVIDIA L40S, 1.0 GiB, compute capability 9.0\n"
                        "           1 x NVIDIA H200, 1.0 GiB, compute capability 9.0\n"
                        "           CUDA_VISIBLE_DEVICES is \"2,1\" and hides all other GPUs\n"));
}

}  // namespace
}  // namespace xrun::testing
