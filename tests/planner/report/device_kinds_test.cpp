// Reports of plans for many devices stay short, and show the memory of each part of a plan.
#include "planner/report/device_kinds.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "planner/planner.h"
#include "planner/report/text.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

struct Planned {
  Module module;
  Plan plan;
};

Planned make(const Module& module, int devices) {
  Planned planned{testing::prepare_training(module), {}};
  const Module inference = testing::prepare_inference(module);
  const Machine machine{
      .name = "many x cpu", .cores = devices, .devices = devices, .threads = devices, .memory = 64 * kGiB};
  planned.plan = make_plan(planned.module, inference, testing::make_facts(planned.module),
                           testing::make_facts(inference), machine, {.emitted = 1})
                     .value();
  return planned;
}

int64_t lines_of(const std::string& text) { return std::ranges::count(text, '\n'); }

DeviceSummary device(int number, std::vector<int32_t> heads, Bytes arena, int threads = 1) {
  return {.device = number, .heads = std::move(heads), .threads = threads, .arena = arena};
}

TEST(DeviceKinds, ManyDevicesOfOneKindAreGroupedAndFewAreNot) {
  std::vector<DeviceSummary> devices{device(kHost, {}, 1)};
  for (int d = 0; d < 40; ++d) {
    devices.push_back(device(d, d % 4 == 0 ? std::vector<int32_t>() : std::vector<int32_t>{0}, 100 + d % 3));
  }
  const std::vector<DeviceKind> kinds = device_kinds(devices);
  ASSERT_EQ(kinds.size(), 3u);
  EXPECT_EQ(kinds[0].count, 1);
  EXPECT_EQ(kinds[1].count, 10);
  EXPECT_EQ(kinds[1].first.device, 0);
  EXPECT_EQ(kinds[2].count, 30);
  EXPECT_EQ(kinds[2].last.device, 39);
  EXPECT_EQ(kinds[2].others(), "+ 29 like it");
  EXPECT_EQ(kinds[2].least, 100);
  EXPECT_EQ(kinds[2].most, 102);
  devices.resize(9);
  EXPECT_EQ(device_kinds(devices).size(), 9u);
}

TEST(DeviceKinds, EqualRowsAreShownOnceWithTheirNumber) {
  std::vector<NamedRow> rows(20, {"stage", "|FF|"});
  rows[5] = {"stage 0.5", "|BB|"};
  const std::vector<NamedRow> folded = folded_rows(rows);
  ASSERT_EQ(folded.size(), 3u);
  EXPECT_EQ(folded[1].text, "18 more like it, the last of them stage");
  for (size_t i = 0; i < 200; ++i) {
    rows.push_back({"", std::to_string(i)});
  }
  EXPECT_LT(folded_rows(rows).size(), 70u);
  EXPECT_EQ(folded_rows(rows).back().text.find("139 more devices"), 0u) << folded_rows(rows).back().text;
}

TEST(DeviceKinds, PagesOfManyDevicesAreShort) {
  const Module module = testing::make_module(
      {.layers = 1, .input = 64, .width = 64, .classes = 20902, .head = true, .batch = 1024, .norm_rows = 8});
  const Planned planned = make(module, 128);
  EXPECT_LT(lines_of(report_text(planned.plan, planned.module)), 60);
  EXPECT_LT(lines_of(report_table(planned.plan, planned.module, "memory", 0)), 200);
  EXPECT_LT(lines_of(report_gantt(planned.plan, planned.module, 80)), 80);
}

// The first stage is on the device with the most memory in use, and the head is on the other device.
TEST(DeviceKinds, TheMemoryOfAHeadIsShownOnItsDevice) {
  Module module = testing::make_module(
      {.layers = 6, .input = 1024, .width = 1024, .classes = 200, .head = true, .batch = 256, .norm_rows = 32});
  module.schedule.stages = Hint<int64_t>{2, {}};
  ShardHint hint;
  hint.head = "id";
  hint.shards = 1;
  module.schedule.shards.push_back(hint);
  const Planned planned = make(module, 2);
  Bytes sum = 0;
  for (const PlanPart& part : list_parts(planned.plan, planned.module)) {
    if (part.name.starts_with("head")) {
      EXPECT_GT(part.memory, 0) << part.how;
    }
    sum += part.elsewhere ? 0 : part.memory;
  }
  Bytes largest = 0;
  for (const Arena& arena : planned.plan.training.arenas) {
    largest = std::max(largest, arena.device == kHost ? 0 : arena.bytes);
  }
  EXPECT_LE(sum, largest);
}

}  // namespace
}  // namespace xrun::planner
