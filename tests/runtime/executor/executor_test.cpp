// Compares the parallel executor with the sequential one, over programs whose instructions do arithmetic on a few
// numbers.
#include "runtime/executor/executor.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <random>
#include <set>

#include "ops/compute_modes.h"
#include "planner/emit/dependences.h"
#include "planner/verify/verify_program.h"
#include "runtime/comm/local/local_communicator.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/exchanges.h"
#include "tests/support/instruction_backend.h"

namespace xrun::runtime {
namespace {

using planner::Access;
using planner::BufferId;
using planner::Instruction;
using planner::InstructionId;
using planner::Kind;
using planner::Program;
using planner::Role;
using planner::Stream;

constexpr int kNumbers = 8;  // numbers per buffer

// Builds a program over small buffers of numbers. The buffers belong to the devices in turn.
struct Builder {
  Program program;

  Builder(int devices, int buffers) {
    program.devices = devices;
    program.threads.assign(static_cast<size_t>(devices), 1);
    for (int i = 0; i < buffers; ++i) {
      program.buffers.push_back({.id = BufferId(i),
                                 .device = i % devices,
                                 .bytes = kNumbers * 8,
                                 .offset = i / devices * kNumbers * 8,
                                 .persistent = true});
    }
    program.arenas.push_back({.device = planner::kHost});
    for (int d = 0; d < devices; ++d) {
      program.arenas.push_back({.device = d, .bytes = (buffers / devices + 1) * kNumbers * 8});
    }
  }

  Instruction& add(Kind kind, int device, int group) {
    Instruction one;
    one.id = InstructionId(program.instructions.size());
    one.kind = kind;
    one.device = device;
    one.stream = communicates(kind) ? Stream::kComm : Stream::kCompute;
    one.group = group;
    program.instructions.push_back(std::move(one));
    return program.instructions.back();
  }
  InstructionId compute(int device, const std::vector<int>& reads, const std::vector<int>& writes) {
    Instruction& one = add(Kind::kForward, device, -1);
    for (const int buffer : reads) {
      one.operands.push_back({.access = Access::kRead, .buffer = BufferId(buffer), .bytes = kNumbers * 8});
    }
    for (const int buffer : writes) {
      one.operands.push_back({.access = Access::kWrite, .buffer = BufferId(buffer), .bytes = kNumbers * 8});
    }
    derive_accesses(one);
    return one.id;
  }
  void send(int from, int to, int group) {
    for (const bool sends : {true, false}) {
      Instruction& one = add(sends ? Kind::kSend : Kind::kRecv, (sends ? from : to) % program.devices, group);
      one.operands = {block(sends, sends ? from : to, (sends ? to : from) % program.devices, 0, kNumbers)};
      derive_accesses(one);
    }
  }
  // Each device sends number 0 of its buffer in `from` to all others, and stores what it receives from device d as
  // number d.
  void gather(const std::vector<int>& from, const std::vector<int>& to, int group) {
    for (int device = 0; device < program.devices; ++device) {
      Instruction& one = add(Kind::kAllGather, device, group);
      for (int peer = 0; peer < program.devices; ++peer) {
        one.operands.push_back(block(true, from[static_cast<size_t>(device)], peer, 0, 1));
        one.operands.push_back(block(false, to[static_cast<size_t>(device)], peer, peer, 1));
      }
      derive_accesses(one);
    }
  }
  static planner::Operand block(bool sends, int buffer, int peer, int first, int count) {
    return {.role = sends ? Role::kSent : Role::kReceived,
            .access = sends ? Access::kRead : Access::kWrite,
            .buffer = BufferId(buffer),
            .index = peer,
            .offset = first * 8,
            .bytes = count * 8};
  }
};

// Each computation mixes the numbers that it reads into those that it writes.
class Arithmetic : public testing::InstructionBackend {
 public:
  Arithmetic(const Program& program, const BoundMemory& memory) : program_(program), memory_(memory) {
    for (const planner::Buffer& buffer : program.buffers) {
      std::ranges::fill(numbers(buffer.id), static_cast<uint64_t>(buffer.id.index));
    }
  }

  Status compute(const Instruction& instruction, ops::Workers& workers) override {
    if (instruction.id == fails) {
      return Error{ErrorKind::kNonFinite, "", "planned failure"};
    }
    uint64_t seen = 17 + static_cast<uint64_t>(instruction.id.index);
    for (const BufferId id : instruction.reads) {
      for (const uint64_t number : numbers(id)) {
        seen = seen * 0x9e3779b97f4a7c15u + number;
      }
    }
    workers.for_each(static_cast<int64_t>(instruction.writes.size()), [&](int64_t i, int) {
      std::ranges::fill(numbers(instruction.writes[static_cast<size_t>(i)]), seen + static_cast<uint64_t>(i));
    });
    ++runs;
    return {};
  }

  std::vector<uint64_t> all() const {
    std::vector<uint64_t> values;
    for (const planner::Buffer& buffer : program_.buffers) {
      const auto own = numbers(buffer.id);
      values.insert(values.end(), own.begin(), own.end());
    }
    return values;
  }

  InstructionId fails;
  std::atomic<int> runs{0};

 private:
  std::span<uint64_t> numbers(BufferId id) const {
    return {reinterpret_cast<uint64_t*>(memory_.at(id)), static_cast<size_t>(kNumbers)};
  }
  const Program& program_;
  const BoundMemory& memory_;
};

// Devices and their memory, with a backend and an executor.
template <typename Runner = Arithmetic>
struct Machine {
  Machine(const Program& program, int threads, bool sequential)
      : devices(make_cpu_devices(std::vector<int>(static_cast<size_t>(program.devices), threads))),
        memory(BoundMemory::map(program, *devices).value()),
        runner(program, memory),
        exchanges(exchanges_of(program, memory)),
        communicator(*devices, exchanges) {
    runner.set_devices(*devices, program);
    if (sequential) {
      executor = std::move(make_sequential_executor(program, runner, exchanges)).value();
    } else {
      executor = make_parallel_executor(program, runner, communicator);
    }
  }
  std::unique_ptr<DeviceSet> devices;
  BoundMemory memory;
  Runner runner;
  std::vector<Exchange> exchanges;
  LocalCommunicator communicator;
  std::unique_ptr<Executor> executor;
};

Program random_program(uint32_t seed, int devices, int slots) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  Builder builder(devices, slots * devices);
  int groups = 0;
  const auto own = [&](int device) { return below(slots) * devices + device; };
  for (int i = 0; i < 120; ++i) {
    const int what = below(10);
    if (what < 6 || devices == 1) {
      const int device = below(devices);
      builder.compute(device, {own(device), own(device)}, {own(device)});
    } else if (what < 8) {
      const int from = below(devices);
      const int to = (from + 1 + below(devices - 1)) % devices;
      builder.send(own(from), own(to), groups++);
    } else {
      std::vector<int> from;
      std::vector<int> to;
      for (int d = 0; d < devices; ++d) {
        // A device may not receive into the buffer that it sends.
        const int slot = below(slots);
        from.push_back(slot * devices + d);
        to.push_back((slot + 1 + below(slots - 1)) % slots * devices + d);
      }
      builder.gather(from, to, groups++);
    }
  }
  planner::derive_dependences(builder.program);
  return builder.program;
}

TEST(Executor, RandomProgramsGiveTheSequentialResult) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const Program program = random_program(seed, 1 + static_cast<int>(seed % 4), 6);
    ASSERT_TRUE(planner::verify_order(program).ok()) << "seed " << seed;
    Machine<> expected(program, 1, true);
    Machine<> got(program, 1 + static_cast<int>(seed % 3), false);
    for (int step = 0; step < 5; ++step) {
      ASSERT_TRUE(expected.executor->step().ok());
      ASSERT_TRUE(got.executor->step().ok());
      ASSERT_EQ(expected.runner.all(), got.runner.all()) << "seed " << seed << " step " << step;
    }
  }
}

TEST(Executor, TheFirstErrorIsReturnedAndLaterInstructionsDoNotRun) {
  Builder builder(2, 4);
  for (int i = 0; i < 20; ++i) {
    builder.compute(0, {0}, {0});
  }
  builder.send(0, 1, 0);
  for (int i = 0; i < 20; ++i) {
    builder.compute(1, {1}, {1});
  }
  planner::derive_dependences(builder.program);
  for (const bool sequential : {false, true}) {
    Machine<> setup(builder.program, 2, sequential);
    setup.runner.fails = InstructionId(5);
    const Status status = setup.executor->step();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "planned failure");
    EXPECT_EQ(setup.runner.runs, 5);
    setup.runner.fails = InstructionId();
    setup.runner.runs = 0;
    EXPECT_TRUE(setup.executor->step().ok()) << "an executor may go on after an error";
    EXPECT_EQ(setup.runner.runs, 40);
  }
}

// Holds one instruction back until another one has run, or until a timeout.
class Meeting final : public Arithmetic {
 public:
  using Arithmetic::Arithmetic;

  Status compute(const Instruction& instruction, ops::Workers& workers) override {
    std::unique_lock lock(mutex_);
    if (instruction.id == comes) {
      here_ = true;
      came_.notify_all();
    } else if (instruction.id == waits && !came_.wait_for(lock, std::chrono::seconds(20), [this] { return here_; })) {
      return Error{ErrorKind::kNonFinite, "", "nobody came"};
    }
    lock.unlock();
    return Arithmetic::compute(instruction, workers);
  }

  InstructionId waits;
  InstructionId comes;

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  bool here_ = false;  // guarded by mutex_
};

// Expects that instruction `comes` runs while instruction `waits` is held back.
void expect_meeting(Builder& builder, InstructionId waits, InstructionId comes) {
  planner::derive_dependences(builder.program);
  Machine<Meeting> setup(builder.program, 1, false);
  setup.runner.waits = waits;
  setup.runner.comes = comes;
  const Status status = setup.executor->step();
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST(Executor, ABusyDeviceDoesNotDelayItsSends) {
  Builder builder(2, 6);
  builder.compute(0, {}, {0, 2});
  builder.send(0, 1, 0);
  builder.send(2, 3, 1);
  const InstructionId busy = builder.compute(0, {0}, {4});
  const InstructionId next = builder.compute(1, {3}, {5});
  expect_meeting(builder, busy, next);
}

TEST(Executor, AReceiveDoesNotWaitForAnEarlierExchange) {
  Builder builder(3, 9);
  const InstructionId slow = builder.compute(0, {}, {0});
  builder.send(0, 1, 0);
  builder.compute(2, {}, {2});
  builder.send(2, 4, 1);
  const InstructionId next = builder.compute(1, {4}, {7});
  expect_meeting(builder, slow, next);
}

TEST(Executor, ASendIsNotDelayedByAnEarlierUnreceivedSend) {
  Builder builder(3, 9);
  const InstructionId busy = builder.compute(1, {}, {1});
  builder.compute(0, {}, {0, 3});
  builder.send(0, 1, 0);  // into a buffer that device 1 is using
  builder.send(3, 2, 1);
  const InstructionId next = builder.compute(2, {2}, {5});
  expect_meeting(builder, busy, next);
}

TEST(Executor, AProgramWithADeadlockIsRefused) {
  Builder builder(2, 4);
  // Each device receives before it sends, so all would wait for each other.
  const auto add = [&](Kind kind, int device, int group) {
    Instruction& one = builder.add(kind, device, group);
    one.operands = {Builder::block(kind == Kind::kSend, device, 1 - device, 0, kNumbers)};
    derive_accesses(one);
  };
  add(Kind::kRecv, 0, 0);
  add(Kind::kSend, 0, 1);
  add(Kind::kRecv, 1, 1);
  add(Kind::kSend, 1, 0);
  const auto devices = make_cpu_devices(std::vector<int>{1, 1});
  const BoundMemory memory = BoundMemory::map(builder.program, *devices).value();
  Arithmetic runner(builder.program, memory);
  EXPECT_FALSE(make_sequential_executor(builder.program, runner, exchanges_of(builder.program, memory)).ok());
}

TEST(CpuDevice, EveryItemRunsOnceOnAWorkerOfItsOwn) {
  const std::vector<int> threads{3};
  const auto set = make_cpu_devices(threads);
  std::vector<std::atomic<int>> seen(1000);
  std::vector<std::atomic<int>> busy(3);
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;  // guarded by mutex
  std::atomic<int> clashes{0};
  std::atomic<int> bad_modes{0};
  struct Context {
    std::function<void()> body;
  } context{[&] {
    static_cast<CpuDevice&>(set->device(0)).for_each(1000, [&](int64_t item, int worker) {
      clashes += busy[static_cast<size_t>(worker)].fetch_add(1) != 0 ? 1 : 0;
      bad_modes += ops::has_compute_modes() ? 0 : 1;
      ++seen[static_cast<size_t>(item)];
      --busy[static_cast<size_t>(worker)];
    });
    // The lock is held to the end, because the waiting thread then destroys all of these variables.
    const std::lock_guard lock(mutex);
    done = true;
    finished.notify_one();
  }};
  set->device(0).start(DeviceStream::kCompute,
                       {[](void* c, int32_t) { static_cast<Context*>(c)->body(); }, &context, 0});
  std::unique_lock lock(mutex);
  finished.wait(lock, [&] { return done; });
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(bad_modes, 0);
  for (const auto& count : seen) {
    EXPECT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace xrun::runtime
