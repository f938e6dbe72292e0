// The choice of GPUs for a plan, and the checks before a plan runs on them.
#include "runtime/device/cuda/machine/chosen_gpus.h"

#include <cstdlib>
#include <gmock/gmock.h>

#include "runtime/device/cuda/driver/driver_open.h"
#include "tests/cuda/planted.h"

namespace xrun::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kH100 = "NVIDIA H100 80GB HBM3";

struct Machine {
  explicit Machine(fake::Settings settings) : fake(std::move(settings)) {
    unsetenv("CUDA_VISIBLE_DEVICES");
    must(start_driver(fake.table()));
  }
  ~Machine() { EXPECT_THAT(fake.faults(), ElementsAre()); }
  Result<ChosenGpus> choose(const std::vector<int>& numbers) const { return choose_gpus(fake.table(), numbers); }
  Error refusal(const std::vector<int>& numbers) const {
    const auto chosen = choose(numbers);
    return chosen.ok() ? Error{} : chosen.error();
  }
  Error check(const std::vector<int>& numbers, const std::string& kind, const std::vector<Bytes>& needs) const {
    const Status status = check_chosen(fake.table(), numbers, kind, needs);
    return status.ok() ? Error{} : status.error();
  }
  fake::FakeDriver fake;
};

TEST(ChosenGpus, TheMemoryOfADeviceIsWhatIsFreeWithoutAReserve) {
  const Machine machine({.names = {kH100}, .memory = uint64_t{8} << 30, .used = uint64_t{3} << 30});
  const ChosenGpus chosen = must(machine.choose({0}));
  EXPECT_EQ(chosen.figures.memory, 5 * kGiB - 512 * kMiB);
  EXPECT_EQ(chosen.figures.flops_per_second_f32, find_gpu("h100")->flops_per_second_f32);
  EXPECT_EQ(chosen.note, "cuda:0: NVIDIA H100 80GB HBM3 with 4.5 GiB of memory");
}

TEST(ChosenGpus, TheReserveOfASmallGpuIsAnEighth) {
  const Machine machine({.memory = uint64_t{64} << 20});
  EXPECT_EQ(must(machine.choose({0})).figures.memory, 56 * kMiB);
}

TEST(ChosenGpus, NoNumbersAreAllGpus) {
  const Machine machine({.gpus = 3, .names = {kH100, kH100, "NVIDIA H100 PCIe"}});
  const ChosenGpus chosen = must(machine.choose({}));
  EXPECT_THAT(chosen.numbers, ElementsAre(0, 1, 2));
  EXPECT_EQ(chosen.note, "cuda:0,1,2: NVIDIA H100 80GB HBM3 with 896.0 MiB of memory");
}

TEST(ChosenGpus, DevicesOfOneGpuShareItsMemoryAndRates) {
  const Machine machine({.gpus = 2, .names = {kH100, kH100}});
  const ChosenGpus chosen = must(machine.choose({1, 1}));
  EXPECT_THAT(chosen.numbers, ElementsAre(1, 1));
  EXPECT_EQ(chosen.figures.memory, 448 * kMiB);
  EXPECT_EQ(chosen.figures.bytes_per_second, find_gpu("h100")->bytes_per_second / 2);
  EXPECT_EQ(chosen.note,
            "cuda:1,1: NVIDIA H100 80GB HBM3 with 448.0 MiB of memory for each of the 2 devices that share a GPU");
}

TEST(ChosenGpus, WrongChoicesAreRefusedWithAFix) {
  const Machine machine({.gpus = 2, .names = {kH100, "NVIDIA L4"}});
  EXPECT_EQ(machine.refusal({2}).code, "XG0852");
  EXPECT_EQ(machine.refusal({2}).message, "there is no cuda:2: the driver finds 2 GPUs, cuda:0 to cuda:1");
  EXPECT_EQ(machine.refusal({0, 2}).help, "give numbers from 0 to 1; `nvidia-smi -L` lists the GPUs");
  EXPECT_EQ(machine.refusal({0, 1}).code, "XG0635");
  EXPECT_EQ(machine.refusal({0, 1}).message,
            "cuda:0 is an NVIDIA H100 80GB HBM3, and cuda:1 an NVIDIA L4: the devices of a plan are GPUs of one kind");
  EXPECT_EQ(machine.refusal({1, 0}).help, "name GPUs of one kind: --devices cuda:1");
}

TEST(ChosenGpus, HiddenGpusAreMentionedIfANumberIsTooLarge) {
  const Machine machine({});
  setenv("CUDA_VISIBLE_DEVICES", "3", 1);
  EXPECT_EQ(
      machine.refusal({3}).message,
      "there is no cuda:3: the driver finds one GPU, cuda:0; CUDA_VISIBLE_DEVICES is \"3\", which hides all others");
  EXPECT_EQ(machine.refusal({3}).help,
            "count the GPUs in the order of CUDA_VISIBLE_DEVICES, from 0, or unset this variable");
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(machine.refusal({3}).help, "give --devices cuda:0; `nvidia-smi -L` lists the GPUs");
}

TEST(ChosenGpus, AGpuOfAnEarlierGenerationIsRefused) {
  const Machine machine({.names = {"Tesla V100-SXM2-16GB"}, .capability = 70});
  EXPECT_EQ(machine.refusal({}).code, "XG0852");
  EXPECT_EQ(machine.refusal({}).message,
            "cuda:0, Tesla V100-SXM2-16GB, has compute capability 7.0, and the kernels need 8.0 or more");
}

TEST(ChosenGpus, AGpuWithoutFreeMemoryIsRefused) {
  const Machine machine({.memory = uint64_t{1} << 30, .used = uint64_t{1} << 30});
  EXPECT_EQ(machine.refusal({0}).code, "XG0854");
  EXPECT_EQ(machine.refusal({0}).message, "cuda:0 has 0 B of its 1.0 GiB free");
}

TEST(ChosenGpus, APlanNeedsGpusOfItsKindWithEnoughMemory) {
  const Machine machine({.gpus = 2, .names = {kH100, "NVIDIA L4"}});
  EXPECT_EQ(machine.check({0}, "h100", {kGiB}).code, "");
  EXPECT_EQ(machine.check({0, 0}, "h100", {512 * kMiB, 512 * kMiB}).code, "");
  const Error other = machine.check({1}, "h100", {kGiB});
  EXPECT_EQ(other.code, "XG0635");
  EXPECT_EQ(other.message, "the plan is for GPUs of the kind h100, and cuda:1 is an NVIDIA L4");
  EXPECT_EQ(other.help, "plan for the GPUs of this machine: xrun plan MODEL --devices cuda:1");
  const Error large = machine.check({0, 0}, "h100", {512 * kMiB, 513 * kMiB});
  EXPECT_EQ(large.code, "XG0854");
  EXPECT_EQ(large.message, "cuda:0 has 1.0 GiB of its 1.0 GiB free, and the plan needs 1.0 GiB there");
  EXPECT_EQ(machine.check({0, 2}, "h100", {0, 0}).code, "XG0852");
}

}  // namespace
}  // namespace xrun::cuda
