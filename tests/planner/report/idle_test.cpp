#include "planner/report/idle.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/planner.h"
#include "planner/report/json.h"
#include "planner/report/page/instructions_json.h"
#include "planner/report/reason_text.h"
#include "planner/report/summary.h"
#include "planner/report/text.h"
#include "planner/search/fit.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

struct Planned {
  Module module;
  Plan plan;
};

Planned make(Module module, const Machine& machine, Seconds sample = 0) {
  Planned planned{testing::prepare_training(module), {}};
  const Module inference = testing::prepare_inference(module);
  KernelFacts facts = testing::make_facts(planned.module);
  facts.sample = sample;
  planned.plan = make_plan(planned.module, inference, facts, testing::make_facts(inference), machine, {}).value();
  return planned;
}

Machine machine_of(int devices, int cores) {
  return {.name = "cpus", .cores = cores, .devices = devices, .threads = devices, .memory = kGiB};
}

Module pipeline(Bytes memory_limit = 0) {
  Module module = testing::make_module({.layers = 4, .input = 256, .width = 256, .batch = 512, .norm_rows = 32});
  module.schedule.stages = Hint<int64_t>{2, {}};
  module.schedule.micro_batches = Hint<int64_t>{8, {}};
  if (memory_limit > 0) {
    module.schedule.memory_limit = Hint<Bytes>{memory_limit, {}};
  }
  return module;
}

std::string line_of(const std::string& text, const std::string& begin) {
  const size_t at = text.find("\n" + begin);
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

// Device 0 computes for 5 s of 10, exchanges for 1 s and waits for 2 s. Device 1 computes for 1 s, and device 2 for
// none.
TEST(Idle, SharesAreThoseOfTheBusiestDeviceAndOfUnequalWork) {
  Program program{.devices = 3};
  ProgramTimes times{.makespan = 8};
  const auto add = [&](Kind kind, int device, Stream stream, Seconds start, Seconds end) {
    program.instructions.push_back({.kind = kind, .device = device, .stream = stream});
    times.instructions.push_back({start, end});
  };
  add(Kind::kForward, 0, Stream::kCompute, 0, 2);
  add(Kind::kSend, 0, Stream::kComm, 2, 3);
  add(Kind::kRecv, 1, Stream::kComm, 2, 3);
  add(Kind::kForward, 1, Stream::kCompute, 3, 4);
  add(Kind::kBackward, 0, Stream::kCompute, 5, 8);
  add(Kind::kSend, 0, Stream::kComm, 6, 7);
  const IdleShares shares = idle_shares(program, times, 10);
  EXPECT_NEAR(shares.imbalance, (0 + 4 + 5) / 3.0 / 10, 1e-12);
  EXPECT_NEAR(shares.communication, 0.1, 1e-12);
  EXPECT_NEAR(shares.waits, 0.2, 1e-12);
  EXPECT_NEAR(shares.all(), (8 * 3 - 6) / 3.0 / 10, 1e-12) << "the mean time in which devices compute nothing";
}

// The second stage has one small layer, so half of the devices are idle, although there are as many cores as busy
// devices and the search predicts no idle time.
TEST(Idle, DevicesOfNearlyEmptyStagesAreIdle) {
  Module module = testing::make_module({.layers = 1, .input = 1024, .width = 16, .batch = 512, .norm_rows = 32});
  module.schedule.stages = Hint<int64_t>{2, {}};
  module.schedule.replicas = Hint<int64_t>{2, {}};
  module.schedule.micro_batches = Hint<int64_t>{2, {}};
  module.schedule.pipeline = Hint<PipelineHint>{{PipelineKind::kGpipe}, {}};
  const Planned planned = make(module, machine_of(4, 2));
  const Prediction& predicted = planned.plan.predicted;
  EXPECT_GT(predicted.bubble + predicted.imbalance, 0.3);
  char expected[32];
  std::snprintf(expected, sizeof expected, "idle %.1f %%", 100 * (predicted.bubble + predicted.imbalance));
  EXPECT_NE(line_of(report_text(planned.plan, planned.module), "  predicted").find(expected), std::string::npos);
  const std::string line = line_of(report_gantt(planned.plan, planned.module, 80), "idle");
  EXPECT_TRUE(line.starts_with(expected)) << line;
  EXPECT_NE(line.find(": imbalance "), std::string::npos) << line;
  EXPECT_EQ(line.find("head"), std::string::npos) << "the model has no head: " << line;
}

TEST(Idle, TheGanttViewNamesTheTimeForData) {
  const Planned planned = make(pipeline(), machine_of(2, 2), 1e-4);
  const double step = planned.plan.predicted.step;
  const Seconds drawn = times_of(planned.plan).makespan;
  ASSERT_GT(step, 1.02 * drawn) << "reading 512 samples takes 26 ms of both cores";
  EXPECT_EQ(line_of(report_gantt(planned.plan, planned.module, 80), "step"),
            "step " + format_seconds(step) + ": " + format_seconds(drawn) + " as drawn, and " +
                format_seconds(step - drawn) + " for reading data");
  const auto json = nlohmann::json::parse(gantt_json(planned.plan));
  EXPECT_DOUBLE_EQ(json["step_seconds"], step);
  EXPECT_DOUBLE_EQ(json["data_seconds"], step - drawn);
  const Planned without = make(pipeline(), machine_of(2, 2));
  EXPECT_EQ(line_of(report_gantt(without.plan, without.module, 80), "step"),
            "step " + format_seconds(without.plan.predicted.step) + ", as drawn");
}

// A hint names a program that was made, with its own numbers, and only if the plan nearly fills its memory.
TEST(Idle, TheGanttViewProposesOnlyMadePlansThatNeedLessMemory) {
  const Planned ample = make(pipeline(), machine_of(2, 2));
  EXPECT_EQ(line_of(report_gantt(ample.plan, ample.module, 80), "hint"), "");
  const Bytes largest = largest_device_of(ample.plan.training);
  const Planned tight = make(pipeline(largest + largest / 20), machine_of(2, 2));
  ASSERT_EQ(tight.plan.id, ample.plan.id);
  const auto leaner = std::ranges::find_if(tight.plan.alternatives, [&](const Alternative& one) {
    return static_cast<double>(one.memory) < 0.98 * static_cast<double>(largest);
  });
  ASSERT_NE(leaner, tight.plan.alternatives.end());
  const Alternative& other = *leaner;
  EXPECT_EQ(line_of(report_gantt(tight.plan, tight.module, 80), "hint"),
            "hint: stages = 2, micro_batches = 8, pipeline = one_f_one_b needs " + format_bytes(other.memory) +
                " instead of " + format_bytes(largest) + " on the largest device: " + format_seconds(other.step) +
                " a step, " + note_text(other));
  Planned fewer = tight;
  for (auto* list : {&fewer.plan.alternatives, &fewer.plan.other_kinds}) {
    for (Alternative& one : *list) {
      one.is_estimate = true;
    }
  }
  EXPECT_EQ(line_of(report_gantt(fewer.plan, fewer.module, 80), "hint"), "");
}

}  // namespace
}  // namespace xrun::planner
