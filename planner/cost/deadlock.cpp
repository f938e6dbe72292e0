// Tests: tests/planner/cost/deadlock_test.cpp
#include "planner/cost/deadlock.h"

#include <algorithm>
#include <map>

namespace xrun::planner {
namespace {

constexpr size_t kMostNamed = 10;

std::string describe(const Instruction& one) {
  std::string text = "#" + std::to_string(one.id.index) + " " + name_of(one.kind);
  text += one.micro_batch >= 0 ? " of micro-batch " + std::to_string(one.micro_batch) : "";
  text += one.head_pass >= 0 ? " of head pass " + std::to_string(one.head_pass) : "";
  text += one.stage >= 0 ? ", stage " + std::to_string(one.stage) : "";
  return text + ", device " + std::to_string(one.device);
}

class Waits {
 public:
  Waits(const Program& program, const SimulatedState& state) : program_(program), state_(state) {
    std::map<std::pair<int, Stream>, int> last;
    for (const Instruction& one : program.instructions) {
      const auto [before, first] = last.emplace(std::pair{one.device, one.stream}, one.id.index);
      before_.push_back(first ? -1 : before->second);
      before->second = one.id.index;
      if (one.group >= 0) {
        members_[one.group].push_back(one.id.index);
      }
    }
  }

  // Returns an instruction for which one that has not ended waits; -1 if there is no such instruction.
  int next(int waiting) const {
    const Instruction& one = program_.instructions[static_cast<size_t>(waiting)];
    if (state_.posted[static_cast<size_t>(waiting)]) {
      const auto members = members_.find(one.group);
      return members == members_.end() ? -1 : first_of(members->second, state_.posted);
    }
    for (const auto* list : {&one.deps, &one.releases}) {
      for (const InstructionId dep : *list) {
        if (!state_.ended[static_cast<size_t>(dep.index)]) {
          return dep.index;
        }
      }
    }
    return first_of({before_[static_cast<size_t>(waiting)]},
                    one.stream == Stream::kCompute ? state_.ended : state_.posted);
  }

 private:
  // Returns the first of some instructions that is not `done`.
  static int first_of(const std::vector<int>& all, const std::vector<bool>& done) {
    const auto found = std::ranges::find_if(all, [&](int one) { return one >= 0 && !done[static_cast<size_t>(one)]; });
    return found == all.end() ? -1 : *found;
  }

  const Program& program_;
  const SimulatedState& state_;
  std::vector<int> before_;  // the instruction before in the stream; index: instruction
  std::map<int, std::vector<int>> members_;
};

}  // namespace

std::string deadlock_text(const Program& program, const SimulatedState& state) {
  const Waits waits(program, state);
  const auto stuck = std::ranges::find(state.ended, false) - state.ended.begin();
  std::vector<size_t> place(program.instructions.size(), 0);  // place in `path`, counted from 1
  std::vector<int> path;
  int at = static_cast<int>(stuck);
  while (at >= 0 && place[static_cast<size_t>(at)] == 0) {
    path.push_back(at);
    place[static_cast<size_t>(at)] = path.size();
    at = waits.next(at);
  }
  if (at >= 0) {
    // The instructions before the circle wait for it, but not the circle for them.
    path.erase(path.begin(), path.begin() + static_cast<int64_t>(place[static_cast<size_t>(at)]) - 1);
  }
  std::string text;
  const size_t named = std::min(kMostNamed, path.size());
  for (size_t i = 0; i < named; ++i) {
    text += i == 0 ? "" : i == 1 ? " waits for " : ", which waits for ";
    text += describe(program.instructions[static_cast<size_t>(path[i])]);
  }
  text += named == 1 ? " waits for " : ", which waits for ";
  if (named < path.size()) {
    text += std::to_string(path.size() - named) + " more, the last of which waits for ";
  }
  return text + (at >= 0 ? "#" + std::to_string(at) : "nothing");
}

}  // namespace xrun::planner
