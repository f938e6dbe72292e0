// Programs whose instructions do arithmetic on a few numbers, and machines that run them; for tests of the executors.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "planner/emit/dependences.h"
#include "runtime/comm/local/local_communicator.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/exchanges.h"
#include "runtime/executor/executor.h"
#include "tests/support/instruction_backend.h"

namespace xrun::runtime::testing {

using planner::Access;
using planner::BufferId;
using planner::Instruction;
using planner::InstructionId;
using planner::Kind;
using planner::Program;
using planner::Role;
using planner::Stream;

inline constexpr int kNumbers = 8;  // numbers per buffer

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
class Arithmetic : public InstructionBackend {
 public:
  Arithmetic(const Program& program, const BoundMemory& memory) : program_(program), memory_(memory) {
    for (const planner::Buffer& buffer : program.buffers) {
      const std::vector<uint64_t> first(kNumbers, static_cast<uint64_t>(buffer.id.index));
      memory.write(buffer.id, 0, std::as_bytes(std::span(first)));
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
      values.resize(values.size() + kNumbers);
      memory_.read(buffer.id, 0, std::as_writable_bytes(std::span(values).last(kNumbers)));
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

inline std::unique_ptr<DeviceSet> cpus_for(const Program& program, int threads) {
  return make_cpu_devices(std::vector<int>(static_cast<size_t>(program.devices), threads));
}

// Devices and their memory, with a backend and an executor.
template <typename Runner = Arithmetic>
struct Machine {
  Machine(const Program& program, int threads, bool sequential)
      : Machine(program, cpus_for(program, threads), sequential) {}
  Machine(const Program& program, std::unique_ptr<DeviceSet> set, bool sequential)
      : devices(std::move(set)),
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

inline Program random_program(uint32_t seed, int devices, int slots) {
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

}  // namespace xrun::runtime::testing
