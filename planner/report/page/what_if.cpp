// Tests: tests/planner/report/page/html_page_test.cpp
#include "planner/report/page/what_if.h"

#include <algorithm>
#include <functional>

namespace xrun::planner {
namespace {

constexpr size_t kMostStages = 8;

// Changes the predicted times of a program and simulates it.
class Changes {
 public:
  Changes(const Plan& plan, const ProgramTimes& times) : plan_(plan), times_(times), program_(plan.training) {}

  // Multiplies the times of the instructions for which `wanted` is true. `network`: how many times faster links are.
  void add(std::string change, double factor, double network, const std::function<bool(const Instruction&)>& wanted) {
    bool some = false;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& before = plan_.training.instructions[i];
      const bool changes = wanted(before) && before.predicted > 0;
      some = some || changes;
      program_.instructions[i].predicted = before.predicted * (changes ? factor : 1);
    }
    Machine machine = plan_.machine;
    machine.network.rate *= network;
    const auto times = simulate(program_, machine);
    if (some && times.ok()) {
      list_.push_back({std::move(change), plan_.predicted.step - times_.makespan + times->makespan});
    }
  }

  std::vector<WhatIf> take() { return std::move(list_); }

 private:
  const Plan& plan_;
  const ProgramTimes& times_;
  Program program_;
  std::vector<WhatIf> list_;
};

}  // namespace

std::vector<WhatIf> what_ifs(const Plan& plan, const ProgramTimes& times) {
  Changes changes(plan, times);
  const auto exchanges = [](const Instruction& one) { return communicates(one.kind) || one.kind == Kind::kCopy; };
  changes.add("exchanges take half the time", 0.5, 2, exchanges);
  changes.add("exchanges take no time", 0, 1e6, exchanges);
  for (size_t stage = 0; stage < std::min(plan.training.stages.size(), kMostStages); ++stage) {
    changes.add("stage " + std::to_string(stage) + " is 10 % faster", 0.9, 1, [&](const Instruction& one) {
      return is_stage_pass(one.kind) && one.stage == static_cast<int>(stage);
    });
  }
  changes.add("heads are 10 % faster", 0.9, 1, [](const Instruction& one) { return is_of_head(one.kind); });
  return changes.take();
}

}  // namespace xrun::planner
