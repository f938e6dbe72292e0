// A discrete-event simulation of a program: it posts each instruction (makes it ready) when the instructions that it
// waits for have ended, starts a unit (a computation, or all members of an exchange) when all of its members are
// posted, and continues with the units that end next. It models shared resources: cores, if there are more busy
// workers than cores, the bandwidth of each node's memory, and the links between nodes.
#include "planner/cost/simulate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "planner/cost/deadlock.h"
#include "planner/cost/link_shares.h"
#include "planner/cost/memory_sharing.h"
#include "planner/cost/summarise.h"
#include "planner/cost/transfers.h"
#include "planner/cost/work_clocks.h"

namespace xrun::planner {
namespace {

// Instructions that start and end together: a computation, or the transfer of an exchange for all of its members, which
// starts when all members are posted.
struct Unit {
  std::vector<int> members;
  int waits = 0;  // number of members that are not posted yet
};

// The events for which an instruction waits: the ends of other instructions and, in the stream kComm, the posting of
// the exchange before it.
struct Waiting {
  int waits = 0;               // number of events that have not happened yet
  std::vector<int> after_end;  // instructions that wait for the end of this instruction
  int posted_next = -1;        // exchange that waits until this instruction is posted
};

std::vector<Waiting> make_waiting(const Program& program) {
  std::vector<Waiting> waiting(program.instructions.size());
  const auto link = [&](int from, int to) {
    waiting[static_cast<size_t>(from)].after_end.push_back(to);
    ++waiting[static_cast<size_t>(to)].waits;
  };
  std::map<std::pair<int, Stream>, int> last;
  for (const Instruction& one : program.instructions) {
    const int at = one.id.index;
    for (const auto* list : {&one.deps, &one.releases}) {
      for (const InstructionId dep : *list) {
        link(dep.index, at);
      }
    }
    const auto [before, first] = last.emplace(std::pair{one.device, one.stream}, at);
    if (!first && one.stream == Stream::kCompute) {
      link(before->second, at);
    } else if (!first) {
      waiting[static_cast<size_t>(before->second)].posted_next = at;
      ++waiting[static_cast<size_t>(at)].waits;
    }
    before->second = at;
  }
  return waiting;
}

std::vector<Unit> make_units(const Program& program, std::vector<int>& unit_of) {
  std::vector<Unit> units;
  std::map<int, int> groups;
  for (const Instruction& one : program.instructions) {
    int unit = static_cast<int>(units.size());
    if (one.group >= 0) {
      unit = groups.emplace(one.group, unit).first->second;
    }
    if (unit == static_cast<int>(units.size())) {
      units.emplace_back();
    }
    units[static_cast<size_t>(unit)].members.push_back(one.id.index);
    ++units[static_cast<size_t>(unit)].waits;
    unit_of.push_back(unit);
  }
  return units;
}

// A discrete-event simulation of the instructions: when units end, the instructions that waited only for them are
// posted.
class ProgramRun {
 public:
  ProgramRun(const Program& program, int cores)
      : program_(program),
        cores_(cores),
        waiting_(make_waiting(program)),
        units_(make_units(program, unit_of_)),
        work_(clocks_.add()),
        time_(clocks_.add()) {
    times_.instructions.resize(program.instructions.size());
  }
  ProgramRun(const Program& program, const Machine& machine) : ProgramRun(program, machine.parallel_workers()) {
    machine_ = &machine;
    for (int n = 0; n < machine.nodes(); ++n) {
      memories_.push_back({.clock = clocks_.add()});
    }
    transfers_ = make_transfers(program, machine);
    shares_ = LinkShares(2 * static_cast<size_t>(machine.nodes()));
    for (const auto& [group, transfer] : transfers_) {
      routes_.resize(std::max(routes_.size(), transfer.route + 1));
    }
    first_route_ = time_ + 1 + memories_.size();
    for (size_t route = 0; route < routes_.size(); ++route) {
      clocks_.add();
    }
  }

  Result<ProgramTimes> run() {
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_[i].waits == 0) {
        ready_.push_back(static_cast<int>(i));
      }
    }
    advance();
    while (!clocks_.idle()) {
      const Seconds next = std::max(now_, clocks_.next_end());
      times_.busy += (next - now_) * (cores_ > 0 ? std::min(cores_, busy_) : busy_);
      now_ = next;
      while (!clocks_.idle() && clocks_.next_end() <= now_) {
        end_next();
      }
      advance();
    }
    if (ended_ < units_.size()) {
      return stuck();
    }
    summarise(program_, times_);
    return std::move(times_);
  }

 private:
  void release(int instruction) {
    if (--waiting_[static_cast<size_t>(instruction)].waits == 0) {
      ready_.push_back(instruction);
    }
  }

  // Begins what can begin at this time, and sets the speeds that follow.
  void advance() {
    post_ready();
    set_slowness_of_work();
    for (const LinkShares::Changed& changed : shares_.update()) {
      clocks_.set_slowness(first_route_ + changed.transfer, 1 / changed.share, now_);
    }
  }

  // With too few cores, workers that stream get less time of a core each, and so use less of the bandwidth.
  void set_slowness_of_work() {
    const double crowding = cores_ > 0 ? std::max(1.0, static_cast<double>(busy_) / cores_) : 1.0;
    clocks_.set_slowness(work_, crowding, now_);
    const auto set = [&](size_t node) {
      const Memory& memory = memories_[node];
      clocks_.set_slowness(memory.clock, std::max(crowding, memory_slowness(*machine_, memory.workers)), now_);
    };
    if (crowding != crowding_) {
      for (size_t node = 0; node < memories_.size(); ++node) {
        set(node);
      }
    } else {
      std::ranges::for_each(changed_, set);
    }
    crowding_ = crowding;
    changed_.clear();
  }

  // Posts the ready instructions, and begins the units of which all members are posted.
  void post_ready() {
    while (!ready_.empty()) {
      const auto instruction = static_cast<size_t>(ready_.back());
      ready_.pop_back();
      const auto unit = static_cast<size_t>(unit_of_[instruction]);
      if (--units_[unit].waits == 0) {
        begin(unit);
      }
      if (waiting_[instruction].posted_next >= 0) {
        release(waiting_[instruction].posted_next);
      }
    }
  }

  void begin(size_t unit) {
    for (const int member : units_[unit].members) {
      times_.instructions[static_cast<size_t>(member)].start = now_;
    }
    busy_ += workers(unit);
    const size_t clock = change_streaming(unit, 1);
    if (const Transfer* transfer = transfer_of(unit); transfer != nullptr) {
      routes_[transfer->route].push_back(unit);
      if (routes_[transfer->route].size() == 1) {
        begin_transfer(transfer->route);
      }
      return;
    }
    clocks_.begin(clock, unit, length(unit), now_);
  }

  // Begins the first transfer that waits on a route.
  void begin_transfer(size_t route) {
    const size_t unit = routes_[route].front();
    const Transfer& transfer = *transfer_of(unit);
    shares_.add(route, transfer.uses);
    clocks_.begin(first_route_ + route, unit, transfer.alone, now_);
  }

  void end_next() {
    const auto [clock, unit] = clocks_.end_next();
    if (clock < first_route_) {
      end(unit);
      return;
    }
    const size_t route = clock - first_route_;
    shares_.remove(route);
    routes_[route].pop_front();
    if (!routes_[route].empty()) {
      begin_transfer(route);
    }
    // The last bytes arrive after the latency, during which the links are free.
    clocks_.begin(time_, unit, std::max(0.0, length(unit) - transfer_of(unit)->alone), now_);
  }

  void end(size_t unit) {
    ++ended_;
    busy_ -= workers(unit);
    change_streaming(unit, -1);
    for (const int member : units_[unit].members) {
      times_.instructions[static_cast<size_t>(member)].end = now_;
      for (const int next : waiting_[static_cast<size_t>(member)].after_end) {
        release(next);
      }
    }
  }

  // Adds the workers of a unit that stream, or with sign -1 takes them away, and returns the clock of the unit.
  size_t change_streaming(size_t unit, int sign) {
    const Instruction& first = program_.instructions[static_cast<size_t>(units_[unit].members[0])];
    const int workers = memories_.empty() ? 0 : streaming_workers(program_, first);
    if (workers == 0) {
      return work_;
    }
    const auto node = static_cast<size_t>(machine_->node_of(first.device));
    memories_[node].workers += sign * workers;
    changed_.push_back(node);
    return memories_[node].clock;
  }

  Seconds length(size_t unit) const {
    Seconds longest = 0;
    for (const int member : units_[unit].members) {
      longest = std::max(longest, program_.instructions[static_cast<size_t>(member)].predicted);
    }
    return longest;
  }

  const Transfer* transfer_of(size_t unit) const {
    const int group = program_.instructions[static_cast<size_t>(units_[unit].members[0])].group;
    const auto found = transfers_.find(group);
    return found == transfers_.end() ? nullptr : &found->second;
  }

  // Returns the number of workers that are busy with a unit.
  int workers(size_t unit) const {
    const Instruction& first = program_.instructions[static_cast<size_t>(units_[unit].members[0])];
    const auto device = static_cast<size_t>(first.device);
    const bool computes = first.stream == Stream::kCompute && !communicates(first.kind);
    return !computes ? 0 : device < program_.threads.size() ? program_.threads[device] : 1;
  }

  Error stuck() const {
    SimulatedState state;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      state.posted.push_back(waiting_[i].waits == 0);
      state.ended.push_back(units_[static_cast<size_t>(unit_of_[i])].waits == 0);
    }
    return {ErrorKind::kContent, "XG0002",
            "program: instructions wait for one another: " + deadlock_text(program_, state), ""};
  }

  struct Memory {
    size_t clock = 0;
    int workers = 0;  // workers of the node that stream
  };

  const Program& program_;
  int cores_;
  const Machine* machine_ = nullptr;  // null: nodes and their memory are not known
  std::vector<Waiting> waiting_;      // index: instruction
  std::vector<int> unit_of_;          // index: instruction
  std::vector<Unit> units_;
  std::map<int, Transfer> transfers_;       // key: group of the members of an exchange
  std::vector<std::deque<size_t>> routes_;  // units that move or wait on each route, in the order of their posting
  LinkShares shares_{0};                    // its transfers have the numbers of their routes
  WorkClocks clocks_;
  size_t work_;                   // the clock of computations that do not stream, and of exchanges inside a node
  size_t time_;                   // the clock of real time
  size_t first_route_ = 2;        // the clock of the first route
  std::vector<int> ready_;        // instructions that wait for nothing and are not posted yet
  std::vector<Memory> memories_;  // index: node
  std::vector<size_t> changed_;   // nodes on which other workers stream than at the last call of set_slowness_of_work
  double crowding_ = 1;
  Seconds now_ = 0;
  size_t ended_ = 0;  // number of units that have ended
  int busy_ = 0;
  ProgramTimes times_;
};

}  // namespace

Result<ProgramTimes> simulate(const Program& program, int cores) { return ProgramRun(program, cores).run(); }

Result<ProgramTimes> simulate(const Program& program, const Machine& machine) {
  return ProgramRun(program, machine).run();
}

}  // namespace xrun::planner
