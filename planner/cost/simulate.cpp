// A discrete-event simulation of a program: it posts each instruction (makes it ready) when the instructions that it
// waits for have ended, starts a unit (a computation, or all members of an exchange) when all of its members are
// posted, and continues with the unit that ends next. It models two shared resources: cores, if there are more busy
// workers than cores, and the links between nodes.
#include "planner/cost/simulate.h"

#include <algorithm>
#include <map>
#include <set>

#include "planner/program/links.h"

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

// Returns the seconds in which an interval of `comm` is running and no interval of `compute`. The intervals of
// `compute` must be in order and not overlap one another.
Seconds exposed(std::vector<InstructionTime> comm, const std::vector<InstructionTime>& compute) {
  std::sort(comm.begin(), comm.end(),
            [](const InstructionTime& a, const InstructionTime& b) { return a.start < b.start; });
  Seconds sum = 0;
  Seconds covered = 0;  // end of the time in which exchanges have been counted
  for (InstructionTime one : comm) {
    one.start = std::max(one.start, covered);
    one.end = std::max(one.end, one.start);
    covered = one.end;
    Seconds hidden = 0;
    auto other = std::ranges::lower_bound(compute, one.start, {}, &InstructionTime::end);
    for (; other != compute.end() && other->start < one.end; ++other) {
      hidden += std::max(0.0, std::min(one.end, other->end) - std::max(one.start, other->start));
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

// A discrete-event simulation of the instructions: when a unit ends, the instructions that waited only for it are
// posted. Durations are measured with a clock of work, which advances like real time while every busy worker has a
// core, and more slowly otherwise. `late_` is the time by which the clock lags behind real time.
class ProgramRun {
 public:
  ProgramRun(const Program& program, int cores)
      : program_(program), cores_(cores), waiting_(make_waiting(program)), units_(make_units(program, unit_of_)) {
    times_.instructions.resize(program.instructions.size());
  }
  ProgramRun(const Program& program, const Machine& machine) : ProgramRun(program, machine.parallel_workers()) {
    loads_ = link_loads(program, machine);
    links_.resize(static_cast<size_t>(machine.nodes()));
    rate_ = machine.network.rate;
  }

  Result<ProgramTimes> run() {
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_[i].waits == 0) {
        ready_.push_back(static_cast<int>(i));
      }
    }
    post_ready();
    size_t done = 0;
    for (; !running_.empty(); ++done) {
      end_next();
      post_ready();
    }
    if (done < units_.size()) {
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
    Seconds length = 0;
    for (const int member : units_[unit].members) {
      length = std::max(length, program_.instructions[static_cast<size_t>(member)].predicted);
      times_.instructions[static_cast<size_t>(member)].start = now_ + late_;
    }
    running_.emplace(link_start(unit) + length, unit);
    busy_ += workers(unit);
  }

  // Returns the time at which the links that a unit needs are free, and reserves them for the unit. A unit that does
  // not cross the network needs no links and can start at once.
  Seconds link_start(size_t unit) {
    const auto load = loads_.find(program_.instructions[static_cast<size_t>(units_[unit].members[0])].group);
    if (load == loads_.end() || rate_ <= 0) {
      return now_;
    }
    const std::vector<LinkBytes>& bytes = load->second.links();
    Seconds start = now_;
    for (size_t n = 0; n < bytes.size(); ++n) {
      start = bytes[n].sent > 0 ? std::max(start, links_[n].sending_until) : start;
      start = bytes[n].received > 0 ? std::max(start, links_[n].receiving_until) : start;
    }
    for (size_t n = 0; n < bytes.size(); ++n) {
      if (bytes[n].sent > 0) {
        links_[n].sending_until = start + static_cast<double>(bytes[n].sent) / rate_;
      }
      if (bytes[n].received > 0) {
        links_[n].receiving_until = start + static_cast<double>(bytes[n].received) / rate_;
      }
    }
    return start;
  }

  void end_next() {
    const auto [end, unit] = *running_.begin();
    running_.erase(running_.begin());
    if (cores_ > 0 && busy_ > cores_) {
      late_ += (end - now_) * (static_cast<double>(busy_) / cores_ - 1);
    }
    now_ = end;
    busy_ -= workers(unit);
    for (const int member : units_[unit].members) {
      times_.instructions[static_cast<size_t>(member)].end = end + late_;
      for (const int next : waiting_[static_cast<size_t>(member)].after_end) {
        release(next);
      }
    }
  }

  // Returns the number of workers that are busy with a unit.
  int workers(size_t unit) const {
    const Instruction& first = program_.instructions[static_cast<size_t>(units_[unit].members[0])];
    const auto device = static_cast<size_t>(first.device);
    const bool computes = first.stream == Stream::kCompute && !communicates(first.kind);
    return !computes ? 0 : device < program_.threads.size() ? program_.threads[device] : 1;
  }

  Error stuck() const {
    std::string list;
    for (size_t i = 0; i < waiting_.size() && list.size() < 80; ++i) {
      if (waiting_[i].waits > 0) {
        list += (list.empty() ? "" : ", ") + std::to_string(i);
      }
    }
    return {ErrorKind::kContent, "XG0002", "program: instructions " + list + " wait for one another", ""};
  }

  struct Link {
    Seconds sending_until = 0;
    Seconds receiving_until = 0;
  };

  const Program& program_;
  int cores_;
  std::map<int, LinkLoad> loads_;  // key: group of the members of an exchange
  std::vector<Link> links_;        // index: node
  double rate_ = 0;
  std::vector<Waiting> waiting_;  // index: instruction
  std::vector<int> unit_of_;      // index: instruction
  std::vector<Unit> units_;
  std::vector<int> ready_;                        // instructions that wait for nothing and are not posted yet
  std::set<std::pair<Seconds, size_t>> running_;  // (end, unit), in the clock of work
  Seconds now_ = 0;
  Seconds late_ = 0;
  int busy_ = 0;
  ProgramTimes times_;
};

}  // namespace

Result<ProgramTimes> simulate(const Program& program, int cores) { return ProgramRun(program, cores).run(); }

Result<ProgramTimes> simulate(const Program& program, const Machine& machine) {
  return ProgramRun(program, machine).run();
}

}  // namespace xrun::planner
