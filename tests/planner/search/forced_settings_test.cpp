// Hints that force other settings of a generated model give no plan that is predicted more than one percent faster than
// the choice of the search. `make test` compares a few settings without limits of memory; `make bench-plans` sets
// XRUN_BENCH_PLANS, the seed of 20 models with 48 settings each, half of which have a limit, and prints a line for each
// model.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>

#include "planner/planner.h"
#include "planner/program/run_memory.h"
#include "planner/search/fit.h"
#include "planner/search/space.h"
#include "tests/planner/generated_models.h"

namespace xrun::planner {
namespace {

using testing::Draw;
using testing::Generated;

// The most by which a forced setting may be predicted faster. Plans whose times differ by less than a thousandth are
// equal for the search, which then prefers the simpler one.
constexpr double kMargin = 1.01;

// A model with the facts of its kernels, for several plans.
struct Subject {
  explicit Subject(Generated given)
      : made(std::move(given)),
        training(testing::prepare_training(made.module)),
        inference(testing::prepare_inference(made.module)),
        facts(testing::make_facts(training)),
        inference_facts(testing::make_facts(inference)) {}

  Result<Plan> plan(const ScheduleSpec& schedule) {
    training.schedule = schedule;
    inference.schedule = schedule;
    return make_plan(training, inference, facts, inference_facts, made.machine, {});
  }

  // The name of the first head; empty: there is none.
  std::string head() const { return training.graph.heads.empty() ? "" : training.graph.heads[0].name; }

  Generated made;
  Module training;
  Module inference;
  KernelFacts facts;
  KernelFacts inference_facts;
};

// Gives some models a limit on all devices together or on each device, below what the plan without limits needs.
// Returns the schedule without other hints, and names the limit in `text`.
ScheduleSpec limited(Subject& subject, Draw& draw, std::string& text) {
  ScheduleSpec schedule;
  const Result<Plan> plenty = subject.plan(schedule);
  EXPECT_TRUE(plenty.ok()) << plenty.error().message;
  if (!plenty.ok() || !draw.chance(0.5)) {
    return schedule;
  }
  const bool each = draw.chance(0.5);
  const auto used = static_cast<double>(each ? largest_device_of(plenty->training)
                                             : run_memory(subject.training, plenty->training, plenty->inference).sum());
  for (double share = draw.spread(0.5, 0.95);; share *= 1.1) {
    const auto limit = static_cast<Bytes>(share * used);
    if (each) {
      schedule.memory_limit = Hint<Bytes>{limit, {0, 1, 2}};
    } else {
      subject.made.machine.memory = limit;
    }
    if (subject.plan(schedule).ok()) {
      text = ", limit of " + format_bytes(limit) + (each ? " a device" : " in all");
      return schedule;
    }
  }
}

std::string text_of(const Program& program) {
  int64_t again = 0;
  for (const Stage& stage : program.stages) {
    again += std::ssize(stage.recomputed);
  }
  return to_text(setting_of(program)) + (again > 0 ? ", " + std::to_string(again) + " nodes run again" : "");
}

// Hints for exactly this setting of a model, whose head is `head`; empty: it has none.
ScheduleSpec hints_for(const ScheduleSpec& open, const Setting& setting, const std::string& head) {
  ScheduleSpec forced = open;
  const Span span{0, 1, 2};
  forced.stages = Hint<int64_t>{setting.stages, span};
  forced.replicas = Hint<int64_t>{setting.replicas, span};
  forced.micro_batches = Hint<int64_t>{setting.micro_batches, span};
  forced.pipeline = Hint<PipelineHint>{setting.hint(), span};
  if (setting.pipeline > PipelineKind::kOneFOneB && !head.empty()) {
    forced.shards.push_back({.head = head, .granularity = setting.one_head_pass ? "step" : "micro_batch"});
  }
  return forced;
}

// These hints, and for some settings also hints for what runs again and for a smaller limit of each device.
ScheduleSpec force(const ScheduleSpec& open, const Setting& setting, const std::string& head, Bytes device,
                   Draw& draw) {
  ScheduleSpec forced = hints_for(open, setting, head);
  const Span span{0, 1, 2};
  if (draw.chance(0.3)) {
    forced.recompute = Hint<RecomputeHint>{{draw.chance(0.5) ? RecomputeHint::kNone : RecomputeHint::kAll, {}}, span};
  }
  if (draw.chance(0.2)) {
    forced.memory_limit = Hint<Bytes>{static_cast<Bytes>(static_cast<double>(device) * draw.spread(0.7, 1)), span};
  }
  return forced;
}

// Returns the pipelines for a number of devices.
std::vector<PipelineHint> pipelines_of(int ranks) {
  std::vector<PipelineHint> all{{PipelineKind::kGpipe}, {PipelineKind::kOneFOneB}};
  if (ranks > 1) {
    all.insert(all.end(), {{PipelineKind::kOneFOneB, 1},
                           {PipelineKind::kOneFOneB, 2},
                           {PipelineKind::kZbV},
                           {PipelineKind::kInterleaved, 0, 2},
                           {PipelineKind::kInterleaved, 0, 3},
                           {PipelineKind::kZeroBubble}});
  }
  return all;
}

// All numbers of stages, replicas and micro-batches that could be legal, with each pipeline and granularity of head
// passes, in a random order.
std::vector<Setting> shuffled_settings(const Subject& subject, Draw& draw) {
  std::vector<Setting> all;
  const int devices = subject.made.machine.devices;
  for (int ranks = 1; ranks <= devices; ++ranks) {
    for (int replicas = 1; replicas <= devices / ranks; ++replicas) {
      for (const int64_t count : micro_batch_counts(subject.training.train)) {
        for (const PipelineHint& hint : pipelines_of(ranks)) {
          for (int passes = 0; passes < (hint.kind > PipelineKind::kOneFOneB ? 2 : 1) && count % replicas == 0;
               ++passes) {
            all.push_back({.stages = ranks * hint.stages_of_device(),
                           .replicas = replicas,
                           .micro_batches = static_cast<int>(count),
                           .pipeline = hint.kind,
                           .chunks = hint.stages_of_device(),
                           .warm_up = static_cast<int>(hint.warm_up),
                           .one_head_pass = passes == 1});
          }
        }
      }
    }
  }
  for (size_t i = all.size(); i > 1; --i) {
    std::swap(all[i - 1], all[static_cast<size_t>(draw.whole(0, static_cast<int64_t>(i) - 1))]);
  }
  return all;
}

// Plans at most `wanted` forced settings of a generated model, and compares them with the choice. Returns the number of
// them that have a plan.
int compare(uint64_t seed, int wanted, bool print) {
  Draw draw(seed + 1'000'000);
  Subject subject(testing::generate_model(seed));
  std::string limit;
  const ScheduleSpec open = print ? limited(subject, draw, limit) : ScheduleSpec();
  const Result<Plan> chosen = subject.plan(open);
  if (!chosen.ok()) {
    ADD_FAILURE() << "seed " << seed << ": " << chosen.error().message;
    return 0;
  }
  const Bytes device = largest_device_of(chosen->training);
  int planned = 0;
  Seconds fastest = HUGE_VAL;
  std::string text;
  const std::vector<Setting> settings = shuffled_settings(subject, draw);
  for (int round = 0; round < 4 && planned < wanted; ++round) {  // later rounds have other limits
    for (const Setting& setting : settings) {
      const Result<Plan> made = subject.plan(force(open, setting, subject.head(), device, draw));
      planned += made.ok() ? 1 : 0;
      if (made.ok() && made->predicted.step < fastest) {
        fastest = made->predicted.step;
        text = text_of(made->training);
      }
      if (planned == wanted) {
        break;
      }
    }
  }
  const Seconds step = chosen->predicted.step;
  const std::string pair = "seed " + std::to_string(seed) + ": " + subject.made.text + limit + "\n    chosen " +
                           text_of(chosen->training) + ": " + format_seconds(step) + "; fastest of " +
                           std::to_string(planned) + " forced settings " + text + ": " + format_seconds(fastest);
  EXPECT_LE(step, fastest * kMargin) << pair;
  if (print) {
    std::printf("%s, ratio %.4f\n", pair.c_str(), step / fastest);
    std::fflush(stdout);
  }
  return planned;
}

// Returns narrow layers, whose updates take a small part of a step, and after them wide ones, whose updates take a
// large part.
Module narrow_and_wide(int64_t batch, int64_t norm_rows) {
  testing::ModelOptions options{.layers = 28, .input = 64, .width = 128, .batch = batch, .norm_rows = norm_rows};
  options.widths.assign(24, 128);
  options.widths.insert(options.widths.end(), 4, 768);
  return make_module(options);
}

Machine machine_of(int devices, int cores) {
  return {.name = "cpu", .cores = cores, .devices = devices, .threads = std::max(devices, cores), .memory = kGiB};
}

// The updates of the last stages run while the first stages still have backward passes.
TEST(ForcedSettings, AreNotFasterIfUpdatesAreLong) {
  for (const int cores : {4, 2}) {
    Subject subject({.module = narrow_and_wide(64, 2), .machine = machine_of(4, cores)});
    Draw draw(1);
    const Result<Plan> chosen = subject.plan({});
    ASSERT_TRUE(chosen.ok()) << chosen.error().message;
    for (const Setting& setting : shuffled_settings(subject, draw)) {
      if (const Result<Plan> made = subject.plan(hints_for({}, setting, "")); made.ok()) {
        EXPECT_LE(chosen->predicted.step, made->predicted.step * kMargin)
            << cores << " cores: " << text_of(chosen->training) << " is chosen, " << text_of(made->training)
            << " is not";
      }
    }
  }
}

// The stages of four devices on two cores take about as long as one another, although the updates of their weights do
// not.
TEST(ForcedSettings, StagesAreEvenWithMoreDevicesThanCores) {
  Subject subject({.module = narrow_and_wide(256, 2), .machine = machine_of(4, 2)});
  ScheduleSpec forced;
  forced.stages = Hint<int64_t>{4, {}};
  forced.replicas = Hint<int64_t>{1, {}};
  forced.micro_batches = Hint<int64_t>{16, {}};
  const Result<Plan> made = subject.plan(forced);
  ASSERT_TRUE(made.ok()) << made.error().message;
  Seconds sum = 0;
  Seconds largest = 0;
  for (const Stage& stage : made->training.stages) {
    sum += stage.forward_time + stage.backward_time;
    largest = std::max(largest, stage.forward_time + stage.backward_time);
  }
  EXPECT_LE(largest, 1.2 * sum / 4);
}

// The first programs exceed the limit. In model 6, head passes over all rows of the batch exceed the limit of a device,
// and passes over fewer rows do not. In model 12, the class rows are on devices without a stage. In model 16, the
// memory that programs need beyond the estimates grows with what runs again. In model 23, one stage with 1F1B fits
// without layers that run again.
TEST(ForcedSettings, AreNotFasterIfTheFirstProgramsExceedALimit) {
  const std::vector<std::pair<uint64_t, Setting>> cases{{6, {3, 1, 4, PipelineKind::kOneFOneB}},
                                                        {12, {3, 1, 2, PipelineKind::kOneFOneB}},
                                                        {16, {2, 1, 6, PipelineKind::kGpipe}},
                                                        {23, {1, 1, 32, PipelineKind::kOneFOneB}}};
  for (const auto& [seed, setting] : cases) {
    Draw draw(seed + 1'000'000);
    Subject subject(testing::generate_model(seed));
    std::string limit;
    const ScheduleSpec open = limited(subject, draw, limit);
    ASSERT_FALSE(limit.empty());
    const Result<Plan> chosen = subject.plan(open);
    ASSERT_TRUE(chosen.ok()) << chosen.error().message;
    const Result<Plan> forced = subject.plan(hints_for(open, setting, subject.head()));
    ASSERT_TRUE(forced.ok()) << forced.error().message;
    EXPECT_LE(chosen->predicted.step, forced->predicted.step * kMargin)
        << "seed " << seed << limit << ": " << text_of(chosen->training);
  }
}

TEST(ForcedSettings, AreNotPredictedFasterThanTheChoice) {
  const char* given = std::getenv("XRUN_BENCH_PLANS");
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const int models = given != nullptr ? 20 : 6;
  const int wanted = given != nullptr ? 48 : 12;
  int planned = 0;
  for (int m = 0; m < models; ++m) {
    planned += compare(first + static_cast<uint64_t>(m), wanted, given != nullptr);
  }
  EXPECT_GE(planned, given != nullptr ? 800 : 40) << "from seed " << first;
  if (given != nullptr) {
    std::printf("%d forced settings of %d models, from seed %llu\n", planned, models,
                static_cast<unsigned long long>(first));
  }
}

}  // namespace
}  // namespace xrun::planner
