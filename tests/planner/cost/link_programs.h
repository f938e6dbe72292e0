// Programs of exchanges between nodes, for tests of the simulator.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner::testing {

inline constexpr double kLinkRate = 1e6;  // bytes a second

// Returns nodes with one core and one device each.
inline Machine link_machine(int nodes, Seconds latency = 0) {
  const ClusterSpec cluster{.nodes = nodes,
                            .network = {.name = "ethernet", .rate = kLinkRate, .latency = latency},
                            .cores = 1,
                            .memory = kGiB,
                            .reserve = 0};
  return make_machine(cluster, {}, 1, kGiB);
}

// Adds the instructions of a program whose device d is on node d.
class LinkProgram {
 public:
  explicit LinkProgram(const Machine& machine) : machine_(machine) {
    program_.devices = machine.devices;
    program_.stages.emplace_back();
    for (int d = 0; d < machine.devices; ++d) {
      program_.threads.push_back(1);
      program_.stages[0].devices.push_back(d);
    }
    program_.buffers.resize(1);
  }

  // Each function returns the index of the first instruction that it adds.
  int compute(int device, Seconds time, const std::vector<int>& deps = {}) {
    return add({.device = device, .predicted = time}, deps);
  }
  // Sends `time` seconds of bytes at the full rate of a link.
  int send(int from, int to, Seconds time, const std::vector<int>& deps = {}) {
    return exchange({{from, to, time}}, time, deps);
  }
  // An exchange of all members with a block for each element of `blocks`: {from, to, seconds of bytes}. `busiest`: the
  // seconds of the busiest link.
  struct Sent {
    int from = 0;
    int to = 0;
    Seconds time = 0;
  };
  int exchange(const std::vector<Sent>& blocks, Seconds busiest, const std::vector<int>& deps = {}) {
    const int first = size();
    std::vector<int> members;
    for (const Sent& block : blocks) {
      for (const int device : {block.from, block.to}) {
        if (std::ranges::find(members, device) == members.end()) {
          members.push_back(device);
        }
      }
    }
    for (const int device : members) {
      Instruction one{.kind = Kind::kReduceScatter,
                      .device = device,
                      .stream = Stream::kComm,
                      .group = group_,
                      .predicted = machine_.network.latency + busiest};
      for (const Sent& block : blocks) {
        if (block.from == device) {
          // Offsets differ, so that no two blocks count as one.
          one.operands.push_back({.role = Role::kSent,
                                  .buffer = BufferId(0),
                                  .index = block.to,
                                  .offset = 64 * offset_++,
                                  .bytes = std::llround(block.time * kLinkRate)});
        }
      }
      add(std::move(one), deps);
    }
    ++group_;
    return first;
  }

  int size() const { return static_cast<int>(program_.instructions.size()); }
  const Program& program() const { return program_; }

 private:
  int add(Instruction one, const std::vector<int>& deps) {
    one.id = InstructionId(size());
    for (const int dep : deps) {
      one.deps.push_back(InstructionId(dep));
    }
    program_.instructions.push_back(std::move(one));
    return size() - 1;
  }

  const Machine& machine_;
  Program program_;
  int group_ = 0;
  Bytes offset_ = 0;
};

}  // namespace xrun::planner::testing
