// The time of a step whose workers also fill the next batch, against a walk over the intervals of the simulated step in
// which the loader takes every idle core.
#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <vector>

#include "graph/base/random.h"
#include "graph/settings/reading_task.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/simulate.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

struct Subject {
  Program program;
  Machine machine;
};

// Returns a program of random computations, each of which waits for others before it, on devices of one node.
Subject random_subject(uint64_t seed) {
  const RandomStream random(seed, 0);
  uint64_t drawn = 0;
  const auto number = [&](int least, int most) {
    return least + static_cast<int>(random.bits(drawn++) % static_cast<uint64_t>(most - least + 1));
  };
  Subject made;
  made.machine.devices = number(1, 4);
  made.machine.threads = made.machine.devices * number(1, 3);
  made.machine.cores = number(1, 12);
  made.machine.filling_workers = number(0, 3);
  made.program.devices = made.machine.devices;
  for (int d = 0; d < made.machine.devices; ++d) {
    made.program.threads.push_back(made.machine.threads_of(d));
  }
  const int count = number(3, 30);
  for (int i = 0; i < count; ++i) {
    Instruction one{.id = InstructionId(i),
                    .kind = number(0, 2) == 0 ? Kind::kUpdate : Kind::kForward,
                    .device = number(0, made.machine.devices - 1),
                    .predicted = number(1, 50) * 1e-3};
    for (int dep = number(0, 2); i > 0 && dep > 0; --dep) {
      one.deps.push_back(InstructionId(number(0, i - 1)));
    }
    std::ranges::sort(one.deps);
    one.deps.erase(std::unique(one.deps.begin(), one.deps.end()), one.deps.end());
    made.program.instructions.push_back(std::move(one));
  }
  return made;
}

struct Walk {
  Seconds busy = 0;  // seconds of cores in computations
  Seconds end = 0;   // when both the step and the loader have ended
};

// Walks over the intervals between the starts and ends of computations. Every idle worker runs the loader.
Walk walk(const Subject& subject, const ProgramTimes& times, Seconds loading) {
  const int workers = std::min(subject.machine.cores, subject.machine.threads);
  std::set<Seconds> events{0};
  for (const InstructionTime& one : times.instructions) {
    events.insert({one.start, one.end});
  }
  Walk made;
  Seconds left = loading;
  for (auto at = events.begin(); std::next(at) != events.end(); ++at) {
    const Seconds begin = *at;
    const Seconds end = *std::next(at);
    int running = 0;
    for (size_t i = 0; i < times.instructions.size(); ++i) {
      const bool runs = times.instructions[i].start <= begin && times.instructions[i].end >= end;
      running += runs ? subject.program.threads[static_cast<size_t>(subject.program.instructions[i].device)] : 0;
    }
    const int busy = std::min(running, subject.machine.cores);
    made.busy += busy * (end - begin);
    left = std::max(0.0, left - std::max(0, workers - busy) * (end - begin));
  }
  made.end = times.makespan + left / workers;
  return made;
}

TEST(LoaderShare, IdleCoresFillTheBatchAndTheRestOfItFollows) {
  const Module module = testing::prepare_training(testing::make_module({.layers = 1}));
  const auto batch = static_cast<double>(module.train.batch);
  int loader_bound = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Subject subject = random_subject(seed);
    const auto times = simulate(subject.program, subject.machine);
    ASSERT_TRUE(times.ok()) << "seed " << seed;
    KernelFacts facts = testing::make_facts(module);
    facts.sample = static_cast<double>(seed % 7) * 0.2 * times->makespan / batch;
    const CostModel cost(facts, subject.machine);
    const Seconds loading = cost.loader(module);
    const Walk walked = walk(subject, *times, loading);
    EXPECT_NEAR(times->busy, walked.busy, 1e-9) << "seed " << seed;
    const Seconds step = cost.step_with_loader(module, times->makespan, times->busy, 0);
    const Seconds task = loading > 0 ? kReadingTask + facts.sample : 0;  // a running task delays the next step
    EXPECT_GE(step, walked.end - 1e-9) << "seed " << seed;
    EXPECT_LE(step, walked.end + task + 1e-9) << "seed " << seed;
    const int workers = std::min(subject.machine.cores, subject.machine.threads);
    EXPECT_LE(times->busy + loading, step * workers + 1e-9) << "cores have more work than time, seed " << seed;
    loader_bound += walked.end > times->makespan + task ? 1 : 0;
  }
  EXPECT_GT(loader_bound, 50);
  EXPECT_LT(loader_bound, 450);
}

// Streaming workers that share the memory take longer, and keep their cores for all of that time.
TEST(LoaderShare, AWorkerThatWaitsForMemoryKeepsItsCore) {
  Subject subject;
  subject.machine.devices = subject.machine.threads = subject.machine.cores = 2;
  subject.program.devices = 2;
  subject.program.threads = {1, 1};
  for (int d = 0; d < 2; ++d) {
    subject.program.instructions.push_back(
        {.id = InstructionId(d), .kind = Kind::kUpdate, .device = d, .predicted = 1});
  }
  EXPECT_DOUBLE_EQ(simulate(subject.program, subject.machine)->busy, 2);
  subject.machine.filling_workers = 1.25;
  EXPECT_DOUBLE_EQ(simulate(subject.program, subject.machine)->busy, 2 * 1.6);
  subject.machine.cores = 1;
  EXPECT_DOUBLE_EQ(simulate(subject.program, subject.machine)->busy, 2) << "one core, which both use in turn";
}

}  // namespace
}  // namespace xrun::planner
