// Devices, arenas and streams of GPUs, with the executor and the communicator that CPU devices have too, on the fake
// driver.
#include "runtime/device/cuda/cuda_devices.h"

#include <array>
#include <atomic>
#include <gmock/gmock.h>
#include <latch>
#include <thread>

#include "runtime/device/cuda/instruction_queue.h"
#include "tests/cuda/planted.h"
#include "tests/runtime/executor/number_programs.h"

namespace xrun::cuda {
namespace {

using planner::Instruction;
using runtime::BoundMemory;
using runtime::Device;
using runtime::DeviceStream;
using runtime::testing::Builder;
using runtime::testing::kNumbers;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// GPUs without kernels.
class Gpus final : public CudaDevices {
 public:
  Gpus(const DriverTable& driver, const std::vector<int>& gpus) : CudaDevices(must(open_devices(driver, gpus))) {}
  Result<std::unique_ptr<runtime::Backend>> bind(const Module&, const planner::Program&, const BoundMemory&,
                                                 const runtime::BackendOptions&) const override {
    return Error{ErrorKind::kUsage, "", "there are no kernels"};
  }
};

struct Machine {
  explicit Machine(fake::Settings settings = {.gpus = 2}, const std::vector<int>& gpus = {0, 1})
      : driver(std::move(settings)) {
    must(start_driver(driver.table()));
    devices = std::make_unique<Gpus>(driver.table(), gpus);
  }
  std::unique_ptr<runtime::DeviceMemory> map(int device, Bytes bytes) const {
    return must(devices->device(device).map(bytes));
  }
  fake::FakeDriver driver;
  std::unique_ptr<Gpus> devices;
};

std::vector<std::byte> bytes_of(const runtime::DeviceMemory& memory) {
  std::vector<std::byte> bytes(static_cast<size_t>(memory.bytes()));
  memory.read(0, bytes);
  return bytes;
}

TEST(CudaDevices, MemoryIsZeroedAndCopiesGoToTheirOffsets) {
  Machine on;
  auto memory = on.map(1, 16);
  EXPECT_EQ(memory->bytes(), 16);
  EXPECT_EQ(memory->host_address(0), nullptr);
  EXPECT_EQ(memory->kernel_address(5) - memory->kernel_address(0), 5);
  EXPECT_EQ(bytes_of(*memory), std::vector<std::byte>(16));
  memory->fill(3, 4, std::byte{9});
  const std::array<std::byte, 2> two{std::byte{1}, std::byte{2}};
  memory->write(5, two);
  std::vector<std::byte> expected(16);
  expected[3] = expected[4] = std::byte{9};
  expected[5] = std::byte{1};
  expected[6] = std::byte{2};
  EXPECT_EQ(bytes_of(*memory), expected);
  EXPECT_TRUE(memory->status().ok());
  memory.reset();
  EXPECT_EQ(on.map(0, 0)->bytes(), 0);
  on.devices.reset();
  EXPECT_EQ(print(on.driver.faults()), "");
}

TEST(CudaDevices, AnotherThreadReportsTheEndOfCopiesBetweenGpus) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Machine on({.gpus = 2, .seed = seed}, {0, 1, 1});
    std::vector<std::unique_ptr<runtime::DeviceMemory>> memory;
    for (int device = 0; device < 3; ++device) {
      memory.push_back(on.map(device, 64));
      memory.back()->fill(0, 64, std::byte(device + 1));
    }
    struct Copies {
      std::vector<std::unique_ptr<runtime::DeviceMemory>>& memory;
      std::latch ended{2};
      std::atomic<int> errors{0};
    } copies{.memory = memory};
    const auto copy = [](void* context, int32_t to) {
      const auto done = [](void* all, Status status) {
        static_cast<Copies*>(all)->errors += status.ok() ? 0 : 1;
        static_cast<Copies*>(all)->ended.count_down();
      };
      auto& all = static_cast<Copies*>(context)->memory;
      const auto at = static_cast<size_t>(to);
      all[at]->copy_from(*all[at - 1], 32, 8, 16, {done, context});
    };
    // Device 1 copies from another GPU, and device 2 from the same GPU; each copies after the copy before has ended.
    on.devices->device(1).start(DeviceStream::kExchanges, {copy, &copies, 1});
    on.devices->device(2).start(DeviceStream::kExchanges, {copy, &copies, 2});
    copies.ended.wait();
    EXPECT_EQ(copies.errors, 0);
    EXPECT_EQ(bytes_of(*memory[1])[8], std::byte{1});
    EXPECT_EQ(bytes_of(*memory[1])[24], std::byte{2});
    EXPECT_EQ(bytes_of(*memory[2])[23], std::byte{2});
    EXPECT_EQ(bytes_of(*memory[2])[7], std::byte{3});
    memory.clear();
    on.devices.reset();
    EXPECT_EQ(print(on.driver.faults()), "") << "seed " << seed;
  }
}

TEST(CudaDevices, StreamsCopyFromAndToTheArenaOfTheHost) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Machine on({.gpus = 2, .seed = seed});
    auto memory = on.map(1, 16);
    auto arena = must(on.devices->map_host(32));
    EXPECT_EQ(arena->bytes(), 32);
    EXPECT_EQ(arena->at(31)[0], std::byte{0});
    for (int i = 0; i < 16; ++i) {
      arena->at(i)[0] = std::byte(i);
    }
    const auto status = runtime::run_on_each(*on.devices, [&](Device& device) -> Status {
      if (device.index() == 0) {
        return {};
      }
      Stream& stream = static_cast<CudaDevice&>(device).worker(DeviceStream::kCompute).stream();
      const auto address = reinterpret_cast<CUdeviceptr>(memory->kernel_address(0));
      XRUN_TRY(stream.copy_in(address, {arena->at(0), 16}));
      XRUN_TRY(stream.copy_out({arena->at(16), 16}, address));
      return stream.synchronise();
    });
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(arena->at(16 + 11)[0], std::byte{11});
    arena.reset();
    memory.reset();
    on.devices.reset();
    EXPECT_EQ(print(on.driver.faults()), "") << "seed " << seed;
  }
}

TEST(CudaDevices, ErrorsOfMemoryAreKept) {
  Machine on({.gpus = 2,
              .memory = 1 << 20,
              .errors = {{.symbol = "cuMemcpyDtoH_v2", .number = 2, .result = CUDA_ERROR_ECC_UNCORRECTABLE}}});
  const auto refused = on.devices->device(0).map(2 << 20);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0854");
  const auto files = on.devices->device(0).map(64, 64);
  ASSERT_FALSE(files.ok());
  EXPECT_EQ(files.error().kind, ErrorKind::kUsage);
  const auto memory = on.map(0, 64);
  bytes_of(*memory);
  EXPECT_TRUE(memory->status().ok());
  bytes_of(*memory);
  ASSERT_FALSE(memory->status().ok());
  EXPECT_EQ(memory->status().error().code, "XG0856");
  memory->fill(0, 64, std::byte{1});
  EXPECT_THAT(memory->status().error().message, HasSubstr("cuMemcpyDtoH_v2")) << "the first error is kept";
}

constexpr Bytes kHalf = kNumbers * 4;  // half of a buffer of a program of numbers

// The work of an instruction: the halves of its result are those of two buffers, and one byte is the instruction's.
struct Mix {
  std::array<planner::BufferId, 2> from;
  planner::BufferId to;
  std::byte mark;

  explicit Mix(const Instruction& instruction)
      : from{instruction.operands[0].buffer, instruction.operands[instruction.operands.size() - 2].buffer},
        to(instruction.operands.back().buffer),
        mark(static_cast<std::byte>(instruction.id.index)) {}
};

// Mixes on CPUs.
class CpuMixes final : public runtime::testing::Arithmetic {
 public:
  CpuMixes(const planner::Program& program, const BoundMemory& memory) : Arithmetic(program, memory), memory_(memory) {}
  Status compute(const Instruction& instruction, ops::Workers& /*workers*/) override {
    const Mix mix(instruction);
    std::byte* const to = memory_.at(mix.to);
    std::copy_n(memory_.at(mix.from[0]) + kHalf, kHalf, to);
    std::copy_n(memory_.at(mix.from[1]), kHalf, to + kHalf);
    to[1] = mix.mark;
    return {};
  }

 private:
  const BoundMemory& memory_;
};

// Mixes on GPUs.
class GpuMixes final : public runtime::Backend {
 public:
  GpuMixes(const planner::Program& program, const BoundMemory& memory, const Gpus& devices)
      : queue_(program, devices, [&memory](const Instruction& instruction, Stream& stream) {
          return launch(memory, instruction, stream);
        }) {}
  bool orders() const override { return true; }
  void begin_step(const runtime::StepContext& step) override { queue_.begin_step(step.guard); }
  void start(const Instruction& instruction, runtime::InstructionEvents& events) override {
    queue_.start(instruction, events);
  }
  Status run(const Instruction& /*instruction*/) override {
    return Error{ErrorKind::kUsage, "", "only the parallel executor runs on GPUs"};
  }
  Status prepare_weights() override { return {}; }
  double grad_norm() const override { return 0; }

 private:
  static Status launch(const BoundMemory& memory, const Instruction& instruction, Stream& stream) {
    const Mix mix(instruction);
    const auto at = [&](planner::BufferId id) { return reinterpret_cast<CUdeviceptr>(memory.at(id)); };
    XRUN_TRY(stream.copy(at(mix.to), at(mix.from[0]) + kHalf, kHalf));
    XRUN_TRY(stream.copy(at(mix.to) + kHalf, at(mix.from[1]), kHalf));
    return stream.fill(at(mix.to) + 1, mix.mark, 1);
  }
  InstructionQueue queue_;
};

std::vector<int> gpus_for(const planner::Program& program) {
  std::vector<int> gpus;
  for (int device = 0; device < program.devices; ++device) {
    gpus.push_back(device % 2);
  }
  return gpus;
}

// A program on GPUs, with the parallel executor.
struct GpuRun {
  GpuRun(const planner::Program& program, fake::Settings settings)
      : on(std::move(settings), gpus_for(program)),
        memory(std::make_unique<BoundMemory>(must(BoundMemory::map(program, *on.devices)))),
        values(std::make_unique<CpuMixes>(program, *memory)),
        backend(std::make_unique<GpuMixes>(program, *memory, *on.devices)),
        communicator(*on.devices, runtime::exchanges_of(program, *memory)),
        executor(runtime::make_parallel_executor(program, *backend, communicator)) {}
  // Destroys the devices and all that uses them, and returns the faults.
  std::string finish() {
    backend.reset();
    values.reset();
    memory.reset();
    on.devices.reset();
    return print(on.driver.faults());
  }
  Machine on;
  std::unique_ptr<BoundMemory> memory;
  std::unique_ptr<CpuMixes> values;  // only writes the first values, and reads the results
  std::unique_ptr<GpuMixes> backend;
  runtime::LocalCommunicator communicator;
  std::unique_ptr<runtime::Executor> executor;
};

TEST(CudaDevices, ProgramsGiveTheSequentialResultWithoutFaults) {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    const planner::Program program = runtime::testing::random_program(seed, 1 + static_cast<int>(seed % 3), 5);
    runtime::testing::Machine<CpuMixes> expected(program, 1, true);
    GpuRun got(program, {.gpus = 2, .seed = seed});
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(expected.executor->step().ok());
      const Status status = got.executor->step();
      ASSERT_TRUE(status.ok()) << status.error().message;
      ASSERT_EQ(expected.runner.all(), got.values->all()) << "seed " << seed << " step " << step;
    }
    EXPECT_EQ(got.finish(), "") << "seed " << seed;
  }
}

// Removes the wait of an exchange for the computation whose result it sends.
TEST(CudaDevices, AnExchangeThatDoesNotWaitForAnEndIsFound) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    for (const bool missing : {false, true}) {
      Builder builder(2, 6);
      builder.compute(0, {0, 2}, {4});
      builder.send(4, 3, 0);
      builder.compute(1, {3, 1}, {5});
      planner::derive_dependences(builder.program);
      ASSERT_EQ(builder.program.instructions[1].deps.size(), 1U);
      if (missing) {
        builder.program.instructions[1].deps.clear();
      }
      GpuRun run(builder.program, {.gpus = 2, .seed = seed});
      // The threads of the host run at any speed, so not every step has the fault.
      for (int step = 0; step < (missing ? 500 : 8) && run.on.driver.faults().empty(); ++step) {
        ASSERT_TRUE(run.executor->step().ok());
      }
      const std::string faults = run.finish();
      EXPECT_EQ(missing, faults.find("cuMemcpyPeerAsync") != std::string::npos) << "seed " << seed << "\n" << faults;
    }
  }
}

planner::Program chain(int count) {
  Builder builder(1, 2);
  for (int i = 0; i < count; ++i) {
    builder.compute(0, {0, 1}, {0});
    builder.program.instructions.back().micro_batch = i;
  }
  planner::derive_dependences(builder.program);
  return builder.program;
}

TEST(CudaDevices, AnErrorThatArrivesLateNamesTheInstructionThatFailed) {
  const planner::Program program = chain(12);
  GpuRun run(program,
             {.errors = {{.symbol = "cuEventSynchronize", .number = 4, .result = CUDA_ERROR_ILLEGAL_ADDRESS}}});
  const Status status = run.executor->step();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "XG0856");
  EXPECT_THAT(status.error().message,
              StartsWith("`forward` of micro-batch 3 on device 0: cuda:0: waiting for its work"));
}

TEST(CudaDevices, AnErrorOfALaunchEndsTheStep) {
  const planner::Program program = chain(12);
  // The first fill zeroes the memory of the device.
  GpuRun run(program, {.errors = {{.symbol = "cuMemsetD8Async", .number = 7, .result = CUDA_ERROR_INVALID_VALUE}}});
  const Status status = run.executor->step();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, StartsWith("`forward` of micro-batch 5 on device 0: cuda:0: filling its memory"));
  EXPECT_TRUE(run.executor->step().ok());
}

// Counts the calls.
class CountingGuard final : public runtime::ChangeGuard {
 public:
  void before(const Instruction&, ops::Workers& workers) override { calls += workers.count(); }
  void before_rows(const Instruction&, std::span<const int32_t>, ops::Workers&) override {}
  int calls = 0;
};

TEST(CudaDevices, TheGuardIsCalledForEachInstruction) {
  const planner::Program program = chain(12);
  GpuRun run(program, {});
  CountingGuard guard;
  run.backend->begin_step({.guard = &guard});
  ASSERT_TRUE(run.executor->step().ok());
  EXPECT_EQ(guard.calls, 12);
  // The threads of a stream end their work a moment after they have reported the last end.
  for (int ms = 0; ms < 30'000 && !run.on.devices->device(0).idle(); ++ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(run.on.devices->device(0).idle());
}

}  // namespace
}  // namespace xrun::cuda
