// Tests: tests/planner/report/page/html_page_test.cpp
#include "planner/report/page/what_if.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

namespace xrun::planner {
namespace {

constexpr size_t kMostStages = 8;

// Returns the part of a stage's backward time in which forward operators run again.
double share_again(const Stage& stage) {
  const std::set<NodeId> recomputed(stage.recomputed.begin(), stage.recomputed.end());
  Seconds again = 0;
  for (size_t at = 0; at < stage.forward.size() && at < stage.forward_times.size(); ++at) {
    again += recomputed.contains(stage.forward[at]) ? stage.forward_times[at] : 0;
  }
  return stage.backward_time > 0 ? std::min(1.0, again / stage.backward_time) : 0;
}

// Changes the predicted times of a program and simulates it.
class Changes {
 public:
  Changes(const Plan& plan, const ProgramTimes& times) : plan_(plan), times_(times), program_(plan.training) {}

  // Multiplies the time of each instruction by `factor` of it. Adds nothing if all factors are 1.
  void add(std::string change, const Machine& machine, const std::function<double(const Instruction&)>& factor,
           std::string part = {}) {
    bool some = false;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& before = plan_.training.instructions[i];
      program_.instructions[i].predicted = before.predicted * factor(before);
      some = some || program_.instructions[i].predicted != before.predicted;
    }
    if (some) {
      add_simulated(std::move(change), machine, std::move(part));
    }
  }

  void add_cores() {
    Machine machine = plan_.machine;
    if (machine.threads > machine.parallel_workers()) {
      machine.cores = machine.threads;
      program_ = plan_.training;
      add_simulated("a core for each worker", machine, {});
    }
  }

  std::vector<WhatIf> take() { return std::move(list_); }

 private:
  void add_simulated(std::string change, const Machine& machine, std::string part) {
    if (const auto times = simulate(program_, machine); times.ok()) {
      const Seconds step = plan_.predicted.step - times_.makespan + times->makespan;
      list_.push_back({std::move(change), step, std::move(part)});
    }
  }

  const Plan& plan_;
  const ProgramTimes& times_;
  Program program_;
  std::vector<WhatIf> list_;
};

}  // namespace

std::vector<WhatIf> what_ifs(const Plan& plan, const ProgramTimes& times) {
  Changes changes(plan, times);
  const std::vector<Stage>& stages = plan.training.stages;
  const auto add_links = [&](std::string change, double factor, std::string part) {
    Machine machine = plan.machine;
    machine.network.rate /= std::max(factor, 1e-6);
    const auto scale = [factor](const Instruction& one) {
      return communicates(one.kind) || one.kind == Kind::kCopy ? factor : 1;
    };
    changes.add(std::move(change), machine, scale, std::move(part));
  };
  add_links("links are twice as fast: exchanges take half the time", 0.5, {});
  add_links("exchanges take no time", 0, "exchanges");
  changes.add_cores();
  std::vector<double> shares;  // index: stage
  std::ranges::transform(stages, std::back_inserter(shares), share_again);
  const auto once = [&](const Instruction& one) {
    return one.kind == Kind::kBackward ? 1 - shares[static_cast<size_t>(one.stage)] : 1;
  };
  changes.add("no layer runs again, with memory for all activations", plan.machine, once, "layers that run again");
  for (size_t stage = 0; stage < std::min(stages.size(), kMostStages); ++stage) {
    changes.add("stage " + std::to_string(stage) + " is 10 % faster", plan.machine, [&](const Instruction& one) {
      return is_stage_pass(one.kind) && one.stage == static_cast<int>(stage) ? 0.9 : 1;
    });
  }
  changes.add("heads are 10 % faster", plan.machine,
              [](const Instruction& one) { return is_of_head(one.kind) ? 0.9 : 1; });
  return changes.take();
}

}  // namespace xrun::planner
