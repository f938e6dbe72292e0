#include "planner/simulate.h"

#include <algorithm>
#include <map>
#include <set>

namespace xrun::planner {
namespace {

// A run of the action lists: the next action of each stage and what has ended when.
class Run {
 public:
  Run(const Schedule& schedule, const ScheduleRequest& request) : schedule_(schedule), request_(request) {
    const size_t stages = schedule.orders.size();
    const auto count = static_cast<size_t>(schedule.micro_batches);
    next_.assign(stages, 0);
    clock_.assign(stages, 0);
    forward_.assign(stages, std::vector<Seconds>(count, -1));
    backward_ = forward_;
    times_.stages.resize(stages);
  }

  ScheduleTimes finish() {
    while (step()) {
    }
    for (size_t s = 0; s < next_.size(); ++s) {
      XRUN_CHECK(next_[s] == schedule_.orders[s].size(), "the schedule was checked and is stuck all the same");
    }
    summarise();
    return std::move(times_);
  }

 private:
  bool step() {
    bool moved = head_pass();
    for (size_t s = 0; s < next_.size(); ++s) {
      while (next_[s] < schedule_.orders[s].size() && advance(s)) {
        moved = true;
      }
    }
    return moved;
  }

  // A head pass starts when every stage has come to it.
  bool head_pass() {
    Seconds start = 0;
    for (size_t s = 0; s < next_.size(); ++s) {
      if (next_[s] >= schedule_.orders[s].size() || schedule_.orders[s][next_[s]].kind != ActionKind::kHead) {
        return false;
      }
      start = std::max(start, clock_[s]);
    }
    for (size_t s = 0; s < next_.size(); ++s) {
      record(s, start, start + request_.head);
    }
    return true;
  }

  bool advance(size_t s) {
    const Action action = schedule_.orders[s][next_[s]];
    const auto i = static_cast<size_t>(action.index);
    Seconds ready = 0;
    if (action.kind == ActionKind::kHead) {
      return false;
    }
    if (action.kind == ActionKind::kForward) {
      if (s > 0) {
        if (forward_[s - 1][i] < 0) {
          return false;
        }
        ready = forward_[s - 1][i] + request_.hop;
      }
      const Seconds start = std::max(clock_[s], ready);
      forward_[s][i] = start + request_.forward[s];
      record(s, start, forward_[s][i]);
      return true;
    }
    if (s + 1 < next_.size()) {
      if (backward_[s + 1][i] < 0) {
        return false;
      }
      ready = backward_[s + 1][i] + request_.hop;
    }
    const Seconds start = std::max(clock_[s], ready);
    backward_[s][i] = start + request_.backward[s];
    record(s, start, backward_[s][i]);
    return true;
  }

  void record(size_t s, Seconds start, Seconds end) {
    times_.stages[s].push_back({schedule_.orders[s][next_[s]], start, end});
    clock_[s] = end;
    ++next_[s];
  }

  void summarise() {
    Seconds most = 0;
    Seconds sum = 0;
    for (const auto& stage : times_.stages) {
      Seconds busy = 0;
      for (const ActionTime& time : stage) {
        busy += time.end - time.start;
        times_.makespan = std::max(times_.makespan, time.end);
      }
      most = std::max(most, busy);
      sum += busy;
    }
    const auto stages = static_cast<double>(times_.stages.size());
    if (times_.makespan > 0) {
      times_.imbalance = (stages * most - sum) / (stages * times_.makespan);
      times_.bubble = 1 - most / times_.makespan;
    }
  }

  const Schedule& schedule_;
  const ScheduleRequest& request_;
  std::vector<size_t> next_;
  std::vector<Seconds> clock_;
  std::vector<std::vector<Seconds>> forward_;  // end of F(stage, i); -1 before
  std::vector<std::vector<Seconds>> backward_;
  ScheduleTimes times_;
};

// Instructions that start and end together: a collective, a send with its recv, or one alone.
struct Unit {
  std::vector<int> members;
  std::vector<int> next;  // units that wait for this one
  int waits = 0;
};

std::vector<Unit> make_units(const Program& program, std::vector<int>& unit_of) {
  std::vector<Unit> units;
  std::map<int, int> groups;
  unit_of.assign(program.instructions.size(), -1);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const int group = program.instructions[i].group;
    int unit = static_cast<int>(units.size());
    if (group >= 0) {
      unit = groups.emplace(group, unit).first->second;
    }
    if (unit == static_cast<int>(units.size())) {
      units.emplace_back();
    }
    units[static_cast<size_t>(unit)].members.push_back(static_cast<int>(i));
    unit_of[i] = unit;
  }
  const auto link = [&](int from, int to) {
    if (from != to) {
      units[static_cast<size_t>(from)].next.push_back(to);
      ++units[static_cast<size_t>(to)].waits;
    }
  };
  std::map<std::pair<int, Stream>, int> last;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (const InstructionId dep : instruction.deps) {
      link(unit_of[static_cast<size_t>(dep.index)], unit_of[i]);
    }
    const auto [place, first] = last.emplace(std::pair{instruction.device, instruction.stream}, static_cast<int>(i));
    if (!first) {
      link(unit_of[static_cast<size_t>(place->second)], unit_of[i]);
      place->second = static_cast<int>(i);
    }
  }
  return units;
}

// Seconds that `comm` covers while `compute` does not; both sorted by start, without overlap inside a list.
Seconds exposed(const std::vector<InstructionTime>& comm, const std::vector<InstructionTime>& compute) {
  Seconds sum = 0;
  for (const InstructionTime& one : comm) {
    Seconds hidden = 0;
    for (const InstructionTime& other : compute) {
      hidden += std::max(0.0, std::min(one.end, other.end) - std::max(one.start, other.start));
    }
    sum += one.end - one.start - hidden;
  }
  return sum;
}

void summarise(const Program& program, ProgramTimes& times) {
  std::vector<std::vector<InstructionTime>> compute(static_cast<size_t>(program.devices));
  auto comm = compute;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    auto& list = instruction.stream == Stream::kCompute ? compute : comm;
    list[static_cast<size_t>(instruction.device)].push_back(times.instructions[i]);
    times.makespan = std::max(times.makespan, times.instructions[i].end);
  }
  std::vector<bool> works(static_cast<size_t>(program.devices), false);
  for (const Stage& stage : program.stages) {
    for (const int device : stage.devices) {
      works[static_cast<size_t>(device)] = true;
    }
  }
  Seconds busy = 0;
  int count = 0;
  for (size_t d = 0; d < works.size(); ++d) {
    times.exposed_comm = std::max(times.exposed_comm, exposed(comm[d], compute[d]));
    if (works[d]) {
      ++count;
      for (const InstructionTime& time : compute[d]) {
        busy += time.end - time.start;
      }
    }
  }
  if (count > 0 && times.makespan > 0) {
    times.bubble = 1 - busy / (times.makespan * count);
  }
}

}  // namespace

ScheduleTimes simulate(const Schedule& schedule, const ScheduleRequest& request) {
  return Run(schedule, request).finish();
}

// Time goes on by events: the end of a unit starts those that waited for it alone. A clock of work runs as fast as the
// others while every busy worker has a core, else slower; `late` is by how much it has fallen behind.
Result<ProgramTimes> simulate(const Program& program, int cores) {
  std::vector<int> unit_of;
  std::vector<Unit> units = make_units(program, unit_of);
  ProgramTimes times;
  times.instructions.resize(program.instructions.size());
  const auto workers = [&](const Unit& unit) {
    const Instruction& first = program.instructions[static_cast<size_t>(unit.members[0])];
    const auto device = static_cast<size_t>(first.device);
    const bool computes = first.stream == Stream::kCompute && unit.members.size() == 1;
    return !computes ? 0 : device < program.threads.size() ? program.threads[device] : 1;
  };
  std::vector<Seconds> start(units.size(), 0);   // by the clock of work
  std::set<std::pair<Seconds, size_t>> running;  // (end, unit)
  Seconds now = 0;
  Seconds late = 0;
  int busy = 0;
  const auto begin = [&](size_t u) {
    Seconds length = 0;
    for (const int member : units[u].members) {
      length = std::max(length, program.instructions[static_cast<size_t>(member)].predicted);
    }
    for (const int member : units[u].members) {
      times.instructions[static_cast<size_t>(member)].start = start[u] + late;
    }
    running.emplace(start[u] + length, u);
    busy += workers(units[u]);
  };
  for (size_t u = 0; u < units.size(); ++u) {
    if (units[u].waits == 0) {
      begin(u);
    }
  }
  size_t done = 0;
  for (; !running.empty(); ++done) {
    const auto [end, u] = *running.begin();
    running.erase(running.begin());
    if (cores > 0 && busy > cores) {
      late += (end - now) * (static_cast<double>(busy) / cores - 1);
    }
    now = end;
    busy -= workers(units[u]);
    for (const int member : units[u].members) {
      times.instructions[static_cast<size_t>(member)].end = end + late;
    }
    for (const int next : units[u].next) {
      const auto n = static_cast<size_t>(next);
      start[n] = end;  // the last to end is the latest
      if (--units[n].waits == 0) {
        begin(n);
      }
    }
  }
  if (done < units.size()) {
    std::string stuck;
    for (size_t u = 0; u < units.size() && stuck.size() < 80; ++u) {
      if (units[u].waits > 0) {
        stuck += (stuck.empty() ? "" : ", ") + std::to_string(units[u].members[0]);
      }
    }
    return Error{ErrorKind::kContent, "XG0002", "program: instructions " + stuck + " wait for one another", ""};
  }
  summarise(program, times);
  return times;
}

}  // namespace xrun::planner
