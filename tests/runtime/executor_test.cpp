// The parallel executor against the sequential one, over programs whose instructions are arithmetic on a few numbers.
#include "runtime/executor/executor.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <gtest/gtest.h>
#include <mutex>
#include <random>
#include <set>

#include "runtime/comm/local/local_communicator.h"
#include "runtime/device/cpu/cpu_device.h"

namespace xrun::runtime {
namespace {

using planner::BufferId;
using planner::Instruction;
using planner::InstructionId;
using planner::Kind;
using planner::Program;
using planner::Stream;

// Buffers are one number each. A run mixes what it reads into what it writes; a communication gathers by a mixing, too.
class Arithmetic final : public InstructionRunner {
 public:
  explicit Arithmetic(size_t buffers) : cells(buffers, 1) {
    for (uint64_t& cell : cells) {
      pieces_.push_back(std::as_writable_bytes(std::span(&cell, 1)));
    }
  }

  Status run(const Instruction& instruction, ops::Workers& workers) override {
    if (instruction.id == fails) {
      return Error{ErrorKind::kNonFinite, "", "planned failure"};
    }
    const uint64_t seen = mix(instruction, 17);
    workers.for_each(static_cast<int64_t>(instruction.writes.size()), [&](int64_t i, int) {
      cells[static_cast<size_t>(instruction.writes[static_cast<size_t>(i)].index)] = seen + static_cast<uint64_t>(i);
    });
    ++runs;
    return {};
  }

  Status prepare(const Instruction& instruction, Exchange& exchange) override {
    const auto piece_of = [&](const std::vector<BufferId>& ids) -> std::span<const std::span<std::byte>> {
      return ids.empty() ? std::span<const std::span<std::byte>>()
                         : std::span(&pieces_[static_cast<size_t>(ids[0].index)], 1);
    };
    exchange.send = piece_of(instruction.reads);
    exchange.recv = piece_of(instruction.writes);
    exchange.combine = instruction.writes.empty() ? nullptr : &Arithmetic::fold;
    return {};
  }

  std::vector<uint64_t> cells;
  InstructionId fails;
  std::atomic<int> runs{0};

 private:
  uint64_t mix(const Instruction& instruction, uint64_t start) const {
    uint64_t value = start + static_cast<uint64_t>(instruction.id.index);
    for (const BufferId id : instruction.reads) {
      value = value * 0x9e3779b97f4a7c15u + cells[static_cast<size_t>(id.index)];
    }
    return value;
  }

  static Status fold(void*, const Exchange& exchange, Published parts) {
    uint64_t value = static_cast<uint64_t>(exchange.member);
    for (const auto& part : parts) {
      uint64_t cell = 0;
      if (!part.empty()) {
        std::memcpy(&cell, part[0].data(), sizeof(cell));
      }
      value = value * 31 + cell;
    }
    std::memcpy(exchange.recv[0].data(), &value, sizeof(value));
    return {};
  }

  std::vector<std::span<std::byte>> pieces_;
};

// A legal program: every access of a buffer depends on the conflicting accesses before it.
struct Builder {
  Program program;
  std::vector<int> last_write;
  std::vector<std::vector<int>> last_reads;

  Builder(int devices, int buffers) : last_write(buffers, -1), last_reads(buffers) { program.devices = devices; }

  InstructionId add(Kind kind, int device, Stream stream, int group, std::vector<BufferId> reads,
                    std::vector<BufferId> writes, const std::set<int>& not_after = {}) {
    Instruction one;
    one.id = InstructionId(program.instructions.size());
    one.kind = kind;
    one.device = device;
    one.stream = stream;
    one.group = group;
    std::set<int> deps;
    for (const BufferId id : reads) {
      deps.insert(last_write[static_cast<size_t>(id.index)]);
    }
    for (const BufferId id : writes) {
      deps.insert(last_write[static_cast<size_t>(id.index)]);
      deps.insert(last_reads[static_cast<size_t>(id.index)].begin(), last_reads[static_cast<size_t>(id.index)].end());
    }
    deps.erase(-1);
    for (const int dep : deps) {
      if (!not_after.contains(dep)) {
        one.deps.push_back(InstructionId(dep));
      }
    }
    for (const BufferId id : reads) {
      last_reads[static_cast<size_t>(id.index)].push_back(one.id.index);
    }
    for (const BufferId id : writes) {
      last_write[static_cast<size_t>(id.index)] = one.id.index;
      last_reads[static_cast<size_t>(id.index)].clear();
    }
    one.reads = std::move(reads);
    one.writes = std::move(writes);
    program.instructions.push_back(std::move(one));
    return program.instructions.back().id;
  }
};

Program random_program(uint32_t seed, int devices, int buffers) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  Builder builder(devices, buffers);
  int groups = 0;
  // Buffers belong to devices round robin, so that a member of a group touches its own.
  const auto own = [&](int device) { return BufferId(below(buffers / devices) * devices + device); };
  for (int i = 0; i < 120; ++i) {
    const int what = below(10);
    if (what < 6 || devices == 1) {
      const int device = below(devices);
      builder.add(Kind::kForward, device, Stream::kCompute, -1, {own(device), own(device)}, {own(device)});
    } else if (what < 8) {
      const int from = below(devices);
      const int to = (from + 1 + below(devices - 1)) % devices;
      const InstructionId send = builder.add(Kind::kSend, from, Stream::kComm, groups, {own(from)}, {});
      builder.add(Kind::kRecv, to, Stream::kComm, groups, {}, {own(to)}, {send.index});
      ++groups;
    } else {
      std::set<int> members;
      for (int d = 0; d < devices; ++d) {
        // Publishing and receiving buffers differ: a pull may run beside another member's.
        const int slots = buffers / devices;
        const int from = below(slots);
        const int to = (from + 1 + below(slots - 1)) % slots;
        const InstructionId id = builder.add(Kind::kAllGather, d, Stream::kComm, groups, {BufferId(from * devices + d)},
                                             {BufferId(to * devices + d)}, members);
        members.insert(id.index);
      }
      ++groups;
    }
  }
  return builder.program;
}

TEST(Executor, RandomProgramsGiveTheSequentialResult) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const int devices = 1 + static_cast<int>(seed % 4);
    const Program program = random_program(seed, devices, 6 * devices);
    Arithmetic expected(static_cast<size_t>(6 * devices));
    auto sequential = make_sequential_executor(program, expected);
    ASSERT_TRUE(sequential.ok()) << "seed " << seed;
    Arithmetic got(static_cast<size_t>(6 * devices));
    std::vector<int> threads(static_cast<size_t>(devices), 1 + static_cast<int>(seed % 3));
    const auto set = make_cpu_devices(threads);
    LocalCommunicator communicator(*set, group_sizes(program));
    const auto parallel = make_parallel_executor(program, got, *set, communicator);
    for (int step = 0; step < 5; ++step) {
      ASSERT_TRUE((*sequential)->step().ok());
      ASSERT_TRUE(parallel->step().ok());
      ASSERT_EQ(expected.cells, got.cells) << "seed " << seed << " step " << step;
    }
  }
}

TEST(Executor, TheFirstErrorIsGivenBackAndTheRestIsNotRun) {
  Builder builder(2, 4);
  for (int i = 0; i < 20; ++i) {
    builder.add(Kind::kForward, 0, Stream::kCompute, -1, {BufferId(0)}, {BufferId(0)});
  }
  const InstructionId send = builder.add(Kind::kSend, 0, Stream::kComm, 0, {BufferId(0)}, {});
  builder.add(Kind::kRecv, 1, Stream::kComm, 0, {}, {BufferId(1)}, {send.index});
  for (int i = 0; i < 20; ++i) {
    builder.add(Kind::kForward, 1, Stream::kCompute, -1, {BufferId(1)}, {BufferId(1)});
  }
  for (const bool parallel : {false, true}) {
    Arithmetic runner(4);
    runner.fails = InstructionId(5);
    const std::vector<int> threads{1, 2};
    const auto set = make_cpu_devices(threads);
    LocalCommunicator communicator(*set, group_sizes(builder.program));
    auto executor = make_parallel_executor(builder.program, runner, *set, communicator);
    if (!parallel) {
      executor = std::move(make_sequential_executor(builder.program, runner)).value();
    }
    const Status status = executor->step();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "planned failure");
    EXPECT_EQ(runner.runs, 5);
    runner.fails = InstructionId();
    runner.runs = 0;
    EXPECT_TRUE(executor->step().ok()) << "an executor may go on after an error";
    EXPECT_EQ(runner.runs, 40);
  }
}

// Holds one instruction until another has run, or gives up.
class Meeting final : public InstructionRunner {
 public:
  Meeting(Arithmetic& inner, InstructionId waits, InstructionId comes) : inner_(inner), waits_(waits), comes_(comes) {}

  Status run(const Instruction& instruction, ops::Workers& workers) override {
    std::unique_lock lock(mutex_);
    if (instruction.id == comes_) {
      here_ = true;
      came_.notify_all();
    } else if (instruction.id == waits_ && !came_.wait_for(lock, std::chrono::seconds(20), [this] { return here_; })) {
      return Error{ErrorKind::kNonFinite, "", "nobody came"};
    }
    lock.unlock();
    return inner_.run(instruction, workers);
  }
  Status prepare(const Instruction& instruction, Exchange& exchange) override {
    return inner_.prepare(instruction, exchange);
  }

 private:
  Arithmetic& inner_;
  InstructionId waits_;
  InstructionId comes_;
  std::mutex mutex_;
  std::condition_variable came_;
  bool here_ = false;  // guarded by mutex_
};

TEST(Executor, ABusyDeviceDoesNotHoldBackWhatItHasToSend) {
  Builder builder(2, 6);
  builder.add(Kind::kForward, 0, Stream::kCompute, -1, {}, {BufferId(0), BufferId(2)});
  for (const int group : {0, 1}) {
    const InstructionId send = builder.add(Kind::kSend, 0, Stream::kComm, group, {BufferId(2 * group)}, {});
    builder.add(Kind::kRecv, 1, Stream::kComm, group, {}, {BufferId(2 * group + 1)}, {send.index});
  }
  const InstructionId busy = builder.add(Kind::kForward, 0, Stream::kCompute, -1, {BufferId(0)}, {BufferId(4)});
  const InstructionId next = builder.add(Kind::kForward, 1, Stream::kCompute, -1, {BufferId(3)}, {BufferId(5)});
  Arithmetic arithmetic(6);
  Meeting runner(arithmetic, busy, next);
  const std::vector<int> threads{1, 1};
  const auto set = make_cpu_devices(threads);
  LocalCommunicator communicator(*set, group_sizes(builder.program));
  const Status status = make_parallel_executor(builder.program, runner, *set, communicator)->step();
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST(Executor, AProgramThatWaitsForItselfIsRefused) {
  Builder builder(2, 4);
  // Each device receives before it sends.
  builder.add(Kind::kRecv, 0, Stream::kComm, 0, {}, {BufferId(0)});
  builder.add(Kind::kSend, 0, Stream::kComm, 1, {BufferId(0)}, {});
  builder.add(Kind::kRecv, 1, Stream::kComm, 1, {}, {BufferId(1)});
  builder.add(Kind::kSend, 1, Stream::kComm, 0, {BufferId(1)}, {});
  Arithmetic runner(4);
  EXPECT_FALSE(make_sequential_executor(builder.program, runner).ok());
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
    set->device(0).for_each(1000, [&](int64_t item, int worker) {
      clashes += busy[static_cast<size_t>(worker)].fetch_add(1) != 0 ? 1 : 0;
      bad_modes += has_compute_modes() ? 0 : 1;
      ++seen[static_cast<size_t>(item)];
      --busy[static_cast<size_t>(worker)];
    });
    // Under the lock to the end: who waits destroys all of this.
    const std::lock_guard lock(mutex);
    done = true;
    finished.notify_one();
  }};
  set->device(0).submit({[](void* c, int32_t) { static_cast<Context*>(c)->body(); }, &context, 0});
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
