// `--devices cuda`: the choice of GPUs, plans for them, and what is refused before a run. The driver is that of
// tests/support/cuda.
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Environment = std::vector<std::pair<std::string, std::string>>;

class GpuCommands : public ::testing::Test {
 protected:
  GpuCommands() { at.write("m.xgraph", tiny_model()); }

  // Runs xrun with the fake driver in place of CUDA's.
  CommandResult run(const std::vector<std::string>& words, Environment environment = {}) const {
    environment.emplace_back("LD_LIBRARY_PATH", XRUN_BINARY_DIR "/fake_cuda");
    return run_xrun(words, {.directory = at.path(), .environment = environment});
  }
  // Runs xrun on a machine whose driver cannot be opened.
  CommandResult run_without_driver(const std::vector<std::string>& words) const {
    std::filesystem::create_directory(at.path() + "/damaged");
    at.write("damaged/libcuda.so.1", "no library");
    return run_xrun(words, {.directory = at.path(), .environment = {{"LD_LIBRARY_PATH", at.path() + "/damaged"}}});
  }
  // Expects that the command ends with this exit code and a message that has these parts.
  void refused(const std::vector<std::string>& words, int exit, const std::vector<std::string>& parts,
               const Environment& environment = {}) const {
    const CommandResult result = run(words, environment);
    EXPECT_EQ(result.exit, exit) << result.out << result.err;
    for (const std::string& part : parts) {
      EXPECT_THAT(result.err, HasSubstr(part));
    }
  }

  TemporaryDirectory at;
};

TEST_F(GpuCommands, APlanIsForTheGpusOfTheMachine) {
  const CommandResult result = run({"plan", "m.xgraph", "--devices", "cuda", "-o", "m.xplan"},
                                   {{"FAKE_CUDA_GPUS", "2"}, {"FAKE_CUDA_NAMES", "NVIDIA H100 PCIe,NVIDIA H100 NVL"}});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.err,
            "note: cuda:0,1: NVIDIA H100 PCIe with 896.0 MiB of memory, planned as h100, with the published figures of "
            "the SXM module\n");
  EXPECT_THAT(result.out, AllOf(HasSubstr("tiny on 2 x h100 "), HasSubstr(" of 896.0 MiB on the fullest h100; "),
                                HasSubstr("  bits       products, convolutions, attention and heads add in another "
                                          "order than on CPUs")));
  // The plan is shown where there is neither a GPU nor a driver.
  const CommandResult shown = run_without_driver({"show", "m.xplan"});
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("tiny on 2 x h100 "));
}

TEST_F(GpuCommands, ACardThatIsInNoTableIsPlannedWithTheRatesOfItsDriver) {
  const CommandResult result = run({"plan", "m.xgraph", "--devices", "cuda:0", "--dry-run"},
                                   {{"FAKE_CUDA_NAMES", "NVIDIA GeForce RTX 4090"}, {"FAKE_CUDA_CAPABILITY", "89"}});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.err,
            "note: cuda:0: NVIDIA GeForce RTX 4090 with 896.0 MiB of memory, planned with rates from its driver: "
            "6.1 TFLOPS in f32, 12.3 in bf16, 64 GB/s\n");
  EXPECT_THAT(result.out, HasSubstr("tiny on 1 x NVIDIA GeForce RTX 4090 "));
}

TEST_F(GpuCommands, TwoDevicesOfOneGpuShareItsMemory) {
  const CommandResult result = run({"plan", "m.xgraph", "--devices", "cuda:0,0", "--dry-run", "--format", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const auto plan = nlohmann::json::parse(result.out);
  EXPECT_EQ(plan["cluster"]["gpu"], "xrun fake GPU 90");
  EXPECT_EQ(plan["cluster"]["gpu_memory"], 448 << 20);
  EXPECT_EQ(plan["run_memory"]["gpus"].size(), 2);
}

TEST_F(GpuCommands, TheMachineReplacesTheGpusOfTheCluster) {
  at.write("c.xgraph", tiny_model() + "\ncluster c {\n  node {\n    gpu = h200\n    gpus = 8\n  }\n}\n");
  const CommandResult result = run({"plan", "c.xgraph", "--devices", "cuda:0", "--dry-run"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("tiny on 1 x xrun fake GPU 90 "));
  at.write("two.xgraph", tiny_model() + "\ncluster c {\n  nodes = 2\n  network = ethernet(10Gbit/s)\n}\n");
  refused({"plan", "two.xgraph", "--devices", "cuda:0"}, 2,
          {"XG0636]: `--devices cuda:0` names GPUs of this machine, and the cluster has 2 nodes"});
}

TEST_F(GpuCommands, FlagsOfProcessorsAreRefused) {
  refused({"plan", "m.xgraph", "--devices", "cuda", "--threads", "2"}, 2,
          {"XG0636]: `--threads` is about the processors of this machine, and `--devices cuda` names GPUs",
           "leave out --threads, or --devices cuda"});
  refused({"train", "m.xgraph", "--devices", "cuda:0", "--cost", "measured"}, 2, {"XG0636]: `--cost measured`"});
}

TEST_F(GpuCommands, WrongValuesNameTheLegalOnes) {
  const std::string numbers = "number the GPUs from 0: --devices cuda:0, or cuda:0,1 for two; --devices cuda means all";
  const std::string forms = "give a number of CPU devices (--devices 2) or GPUs (--devices cuda, cuda:0 or cuda:0,1)";
  const auto wrong = [&](const std::string& value, const std::string& cause, const std::string& fix) {
    refused({"plan", "m.xgraph", "--devices", value}, 2, {fmt::format("`--devices {}` {}", value, cause), fix});
  };
  wrong("cuda:", "names no GPU", numbers);
  wrong("cuda:x", "has `x` in place of the number of a GPU, from 0 to 1023", numbers);
  wrong("cuda:-1", "has `-1` in place of", numbers);
  wrong("cuda:1024", "has `1024` in place of", numbers);
  wrong("cuda:0,", "lacks a number before or after a comma", numbers);
  wrong("cuda:,0", "lacks a number before or after a comma", numbers);
  wrong("cuda:0-3", "has `0-3` in place of", numbers);
  std::string many = "cuda:0";
  for (int i = 0; i < 1024; ++i) {
    many += ",0";
  }
  wrong(many, "has 1025 devices, and a plan at most 1024", numbers);
  wrong("gpu:0", "is not a number of devices from 1 to 1024, and names no GPUs",
        "did you mean `--devices cuda:0`? " + forms);
  wrong("CUDA", "is not a number", "did you mean `--devices cuda`? " + forms);
  wrong("cuda0,1", "is not a number", "did you mean `--devices cuda:0,1`? " + forms);
  wrong("cpu", "is not a number", "help: " + forms);
  wrong("gpu:x", "is not a number", "help: " + forms);
  refused({"bench", "jit", "--devices", "cuda"}, 2,
          {"`--devices` (or its XRUN_ variable) has no effect on `xrun bench`"});
}

TEST_F(GpuCommands, AGpuThatIsNotThereIsRefused) {
  refused({"train", "m.xgraph", "--devices", "cuda:99"}, 4,
          {"error[XG0852]: there is no cuda:99: the driver finds one GPU, cuda:0\n",
           "give --devices cuda:0; `nvidia-smi -L` lists the GPUs"});
  refused(
      {"plan", "m.xgraph", "--devices", "cuda:1"}, 4,
      {"XG0852]: there is no cuda:1: the driver finds one GPU, cuda:0; CUDA_VISIBLE_DEVICES is \"GPU-00000002\", which "
       "hides all others",
       "count the GPUs in the order of CUDA_VISIBLE_DEVICES, from 0, or unset this variable"},
      {{"FAKE_CUDA_GPUS", "3"}, {"CUDA_VISIBLE_DEVICES", "GPU-00000002"}});
  refused({"train", "m.xgraph", "--devices", "cuda"}, 4,
          {"XG0852]: the driver may use no GPU: CUDA_VISIBLE_DEVICES is \"\""}, {{"CUDA_VISIBLE_DEVICES", ""}});
  refused({"train", "m.xgraph", "--devices", "cuda"}, 4,
          {"XG0852]: cuda:0, Tesla V100-SXM2-16GB, has compute capability 7.0, and the kernels need 8.0 or more"},
          {{"FAKE_CUDA_NAMES", "Tesla V100-SXM2-16GB"}, {"FAKE_CUDA_CAPABILITY", "70"}});
  refused(
      {"train", "m.xgraph", "--devices", "cuda"}, 2,
      {"XG0635]: cuda:0 is an NVIDIA A100-SXM4-80GB, and cuda:1 an NVIDIA L4: the devices of a plan are GPUs of one "
       "kind",
       "name GPUs of one kind: --devices cuda:0"},
      {{"FAKE_CUDA_GPUS", "2"}, {"FAKE_CUDA_NAMES", "NVIDIA A100-SXM4-80GB,NVIDIA L4"}});
}

TEST_F(GpuCommands, AGpuThatAnotherProcessUsesExclusivelyIsRefused) {
  refused({"train", "m.xgraph", "--devices", "cuda"}, 4,
          {"XG0852]: cuda:0: opening its context: another process uses the GPU exclusively",
           "end that process, or allow several processes: `nvidia-smi -c DEFAULT`"},
          {{"FAKE_CUDA_ERRORS", "cuDevicePrimaryCtxRetain:1:46"}});
}

TEST_F(GpuCommands, TheDriverNamesVisibleGpusInTheOrderOfTheVariable) {
  const CommandResult result = run({"plan", "m.xgraph", "--devices", "cuda:0", "--dry-run"},
                                   {{"FAKE_CUDA_GPUS", "3"},
                                    {"FAKE_CUDA_NAMES", "NVIDIA A100-SXM4-80GB,NVIDIA L4,NVIDIA H200"},
                                    {"CUDA_VISIBLE_DEVICES", "2,0"}});
  EXPECT_THAT(result.out, HasSubstr("tiny on 1 x h200 ")) << result.err;
}

TEST_F(GpuCommands, ADriverThatIsMissingOrTooOldIsReportedWithWhatToInstall) {
  const CommandResult damaged = run_without_driver({"train", "m.xgraph", "--devices", "cuda"});
  EXPECT_EQ(damaged.exit, 4) << damaged.err;
  EXPECT_THAT(damaged.err, AllOf(HasSubstr("error[XG0850]: the GPU driver cannot be opened: "),
                                 HasSubstr("Debian 12: add `contrib non-free non-free-firmware` to its sources, then "
                                           "`apt install nvidia-driver libcuda1`")));
  refused({"train", "m.xgraph", "--devices", "cuda"}, 4,
          {"XG0851]: the GPU driver supports CUDA 11.4, and xrun needs 12.0", "install version 525 or newer"},
          {{"FAKE_CUDA_VERSION", "11040"}});
}

TEST_F(GpuCommands, TooLittleFreeMemoryIsRefused) {
  refused(
      {"train", "m.xgraph", "--devices", "cuda"}, 4,
      {"XG0854]: cuda:0 has 1.0 MiB of its 1.0 GiB free", "end other programs on this GPU (`nvidia-smi` lists them)"},
      {{"FAKE_CUDA_USED_MIB", "1023"}});
  // The plan was made when more memory was free.
  ASSERT_EQ(run({"plan", "m.xgraph", "--devices", "cuda", "-o", "m.xplan"}).exit, 0);
  refused({"train", "m.xplan"}, 4,
          {"XG0854]: cuda:0 has 0 B of its 1.0 GiB free, and the plan needs ",
           "or plan for the memory that is free: xrun plan MODEL --devices cuda:0"},
          {{"FAKE_CUDA_USED_MIB", "1024"}});
}

TEST_F(GpuCommands, APlanForOtherGpusIsRefused) {
  const Environment h200{{"FAKE_CUDA_NAMES", "NVIDIA H200"}};
  ASSERT_EQ(run({"plan", "m.xgraph", "--devices", "cuda", "-o", "m.xplan"}, h200).exit, 0);
  refused({"train", "m.xplan"}, 1,
          {"XG0635]: the plan is for GPUs of the kind h200, and cuda:0 is an xrun fake GPU 90",
           "plan for the GPUs of this machine: xrun plan MODEL --devices cuda:0"});
  const CommandResult without = run_without_driver({"train", "m.xplan"});
  EXPECT_EQ(without.exit, 4) << without.err;
  EXPECT_THAT(without.err, HasSubstr("XG0850]: the GPU driver cannot be opened"));
  refused({"train", "m.xplan", "--devices", "cuda:0"}, 2,
          {"XG0620]: `--devices` (or its XRUN_ variable) has no effect on `m.xplan`"}, h200);
}

TEST_F(GpuCommands, APlanForAClusterThatDoesNotFitIsRefusedWithoutADriver) {
  at.write("c.xgraph", tiny_model() + "\ncluster c {\n  node {\n    gpu = h100\n  }\n}\n");
  const CommandResult result = run_without_driver({"train", "c.xgraph", "--set", "schedule.memory_limit=16KiB"});
  EXPECT_EQ(result.exit, 3) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("XG0601]"), Not(HasSubstr("driver"))));
}

TEST_F(GpuCommands, TrainingOnCpusNamesGpusThatItCouldUse) {
  const Environment two{{"FAKE_CUDA_GPUS", "2"}};
  const std::string line =
      " note the run uses CPUs, and this machine has 2 x xrun fake GPU 90; to train on GPUs, add `--devices cuda`\n";
  const std::vector<std::string> words{"train", "m.xgraph", "--steps", "1", "--resume", "never", "--overwrite"};
  const auto train = [&](std::vector<std::string> flags, const Environment& environment) {
    flags.insert(flags.begin(), words.begin(), words.end());
    const CommandResult result = run(flags, environment);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(train({}, two), HasSubstr(line));
  EXPECT_THAT(train({"--devices", "1"}, two), Not(HasSubstr("the run uses CPUs")));
  EXPECT_THAT(train({"-q"}, two), Not(HasSubstr("the run uses CPUs")));
  EXPECT_THAT(train({}, {{"CUDA_VISIBLE_DEVICES", ""}}), Not(HasSubstr("the run uses CPUs")));
  EXPECT_THAT(train({}, {{"FAKE_CUDA_CAPABILITY", "75"}}), Not(HasSubstr("the run uses CPUs")));
  EXPECT_THAT(train({}, {{"FAKE_CUDA_BLOCKS", "cuInit"}}), Not(HasSubstr("the run uses CPUs")))
      << "a driver that never answers";
  const CommandResult without = run_without_driver(words);
  EXPECT_EQ(without.exit, 0) << without.err;
  EXPECT_THAT(without.err, Not(HasSubstr("the run uses CPUs")));
}

}  // namespace
}  // namespace xrun::testing
