// The simulator and a slow one that shares no code with it, on random programs of computations and exchanges.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <ranges>
#include <set>

#include "graph/base/random.h"
#include "planner/cost/simulate.h"
#include "tests/planner/cost/link_programs.h"

namespace xrun::planner {
namespace {

// Looks at all instructions after each event, and computes all speeds again.
class SlowSimulator {
 public:
  SlowSimulator(const Program& program, const Machine& machine) : program_(program), machine_(machine) {
    for (const Instruction& one : program.instructions) {
      Unit& unit = units_[one.group >= 0 ? one.group : -1 - one.id.index];
      unit.members.push_back(one.id.index);
      for (const Operand& block : one.operands) {
        unit.traffic[{0, one.device}] += static_cast<double>(block.bytes);
        unit.traffic[{1, block.index}] += static_cast<double>(block.bytes);
      }
      unit.devices.insert(one.device);
    }
  }

  std::vector<InstructionTime> run() {
    times_.resize(program_.instructions.size());
    posted_.assign(times_.size(), false);
    ended_.assign(times_.size(), false);
    while (true) {
      post();
      const std::map<int, double> speeds = find_speeds();
      Seconds next = HUGE_VAL;
      for (const auto& [number, speed] : speeds) {
        next = std::min(next, units_[number].left / speed);
      }
      if (next == HUGE_VAL) {
        return times_;
      }
      now_ += next;
      for (const auto& [number, speed] : speeds) {
        Unit& unit = units_[number];
        unit.left -= next * speed;
        if (unit.left < 1e-9) {
          end(unit);
        }
      }
    }
  }

 private:
  struct Unit {
    std::vector<int> members;
    std::map<std::pair<int, int>, double> traffic;  // key: (direction, node); bytes
    std::set<int> devices;
    bool runs = false;
    bool arrives = false;  // its bytes have been sent, and only the latency is left
    double left = 0;       // seconds of work alone
    int turn = 0;          // number of units that began before
  };

  bool before_in_stream_is_done(const Instruction& one) const {
    for (int i = one.id.index - 1; i >= 0; --i) {
      const Instruction& other = program_.instructions[static_cast<size_t>(i)];
      if (other.device == one.device && other.stream == one.stream) {
        return one.stream == Stream::kCompute ? ended_[static_cast<size_t>(i)] : posted_[static_cast<size_t>(i)];
      }
    }
    return true;
  }

  void post() {
    for (bool more = true; more;) {
      more = false;
      for (const Instruction& one : program_.instructions) {
        const auto at = static_cast<size_t>(one.id.index);
        const bool ready =
            std::ranges::all_of(one.deps, [&](InstructionId dep) { return ended_[static_cast<size_t>(dep.index)]; });
        if (!posted_[at] && ready && before_in_stream_is_done(one)) {
          posted_[at] = more = true;
        }
      }
    }
    for (auto& [number, unit] : units_) {
      const bool all = std::ranges::all_of(unit.members, [&](int m) { return posted_[static_cast<size_t>(m)]; });
      if (all && !unit.runs && !ended_[static_cast<size_t>(unit.members[0])]) {
        unit.runs = true;
        unit.turn = turns_++;
        unit.left = unit.traffic.empty() ? program_.instructions[static_cast<size_t>(unit.members[0])].predicted
                                         : busiest(unit) / machine_.network.rate;
        for (const int m : unit.members) {
          times_[static_cast<size_t>(m)].start = now_;
        }
      }
    }
  }

  static double busiest(const Unit& unit) {
    double most = 0;
    for (const auto& [link, bytes] : unit.traffic) {
      most = std::max(most, bytes);
    }
    return most;
  }

  static std::set<std::pair<int, int>> links(const Unit& unit) {
    std::set<std::pair<int, int>> keys;
    for (const auto& [link, bytes] : unit.traffic) {
      keys.insert(link);
    }
    return keys;
  }

  bool moves(const Unit& unit) const {
    return unit.runs && !unit.arrives && std::ranges::none_of(units_, [&](const auto& other) {
             return other.second.runs && !other.second.arrives && other.second.turn < unit.turn &&
                    links(other.second) == links(unit) && other.second.devices == unit.devices;
           });
  }

  std::map<int, double> find_speeds() const {
    std::map<int, double> speeds;
    std::set<int> open;
    for (const auto& [number, unit] : units_) {
      if (unit.traffic.empty() || unit.arrives) {
        if (unit.runs) {
          speeds[number] = 1;
        }
      } else if (moves(unit)) {
        speeds[number] = 0;
        open.insert(number);
      }
    }
    // The speed of all open transfers grows until the first link is full.
    while (!open.empty()) {
      std::map<std::pair<int, int>, double> used;
      std::map<std::pair<int, int>, double> growing;
      for (const auto& [number, speed] : speeds) {
        const Unit& unit = units_.at(number);
        for (const auto& [link, bytes] : unit.traffic) {
          const double part = unit.arrives ? 0 : bytes / busiest(unit);
          used[link] += part * speed;
          growing[link] += open.contains(number) ? part : 0;
        }
      }
      double more = HUGE_VAL;
      for (const auto& [link, parts] : growing) {
        more = parts > 1e-9 ? std::min(more, (1 - used[link]) / parts) : more;
      }
      std::set<int> stopped;
      for (const int number : open) {
        for (const auto& [link, bytes] : units_.at(number).traffic) {
          if (used[link] + growing[link] * more > 1 - 1e-9) {
            stopped.insert(number);
          }
        }
      }
      for (const int number : open) {
        speeds[number] += more;
      }
      for (const int number : stopped) {
        open.erase(number);
      }
    }
    return speeds;
  }

  void end(Unit& unit) {
    if (!unit.traffic.empty() && !unit.arrives && machine_.network.latency > 0) {
      unit.arrives = true;
      unit.left = machine_.network.latency;
      return;
    }
    unit.runs = false;
    for (const int m : unit.members) {
      ended_[static_cast<size_t>(m)] = true;
      times_[static_cast<size_t>(m)].end = now_;
    }
  }

  const Program& program_;
  const Machine& machine_;
  std::map<int, Unit> units_;
  std::vector<InstructionTime> times_;
  std::vector<bool> posted_;
  std::vector<bool> ended_;
  Seconds now_ = 0;
  int turns_ = 0;
};

// Lengths are random real numbers, so that no two exchanges become ready at the same time and order never is a choice.
Program random_program(uint64_t seed, const Machine& machine) {
  const RandomStream stream(seed, 61);
  uint64_t at = 0;
  const auto below = [&](int count) { return static_cast<int>(stream.below(at++, static_cast<uint64_t>(count))); };
  const auto time = [&] { return 0.05 + static_cast<double>(stream.uniform(at++)); };
  testing::LinkProgram made(machine);
  for (int d = 0; d < machine.devices; ++d) {
    made.compute(d, time());
  }
  while (made.size() < 60) {
    const std::vector<int> deps{below(made.size())};
    const int device = below(machine.devices);
    const int other = (device + 1 + below(machine.devices - 1)) % machine.devices;
    switch (below(3)) {
      case 0:
        made.compute(device, time(), deps);
        break;
      case 1:
        made.send(device, other, std::round(time() * 1e6) / 1e6, deps);
        break;
      default: {
        // Blocks of several devices, with whole microseconds of bytes.
        std::vector<testing::LinkProgram::Sent> blocks;
        std::map<std::pair<int, int>, double> links;
        for (int b = 0; b < 4; ++b) {
          const int from = below(machine.devices);
          const int to = (from + 1 + below(machine.devices - 1)) % machine.devices;
          blocks.push_back({from, to, std::round(time() * 1e6) / 1e6});
          links[{0, from}] += blocks.back().time;
          links[{1, to}] += blocks.back().time;
        }
        made.exchange(blocks, std::ranges::max(links | std::views::values), deps);
      }
    }
  }
  return made.program();
}

TEST(SimulateProgram, AgreesWithASlowSimulatorOnRandomPrograms) {
  int shared = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Machine machine = testing::link_machine(2 + static_cast<int>(seed % 4), seed % 3 == 0 ? 0 : 0.02);
    const Program program = random_program(seed, machine);
    const auto times = simulate(program, machine);
    ASSERT_TRUE(times.ok()) << "seed " << seed << ": " << times.error().message;
    const auto wanted = SlowSimulator(program, machine).run();
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(times->instructions[i].start, wanted[i].start, 1e-6) << "seed " << seed << ", instruction " << i;
      ASSERT_NEAR(times->instructions[i].end, wanted[i].end, 1e-6) << "seed " << seed << ", instruction " << i;
    }
    shared += times->makespan > simulate(program)->makespan + 1e-6 ? 1 : 0;
  }
  EXPECT_GT(shared, 30) << "programs in which sharing of links matters";
}

}  // namespace
}  // namespace xrun::planner
