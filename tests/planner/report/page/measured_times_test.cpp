#include "planner/report/page/measured_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/report/page/measured_report.h"
#include "planner/report/summary.h"
#include "tests/planner/report/page/planned_pages.h"

namespace xrun::planner {
namespace {

using ::testing::HasSubstr;
using testing::plan_page;

// A run whose instructions take twice the predicted time.
MeasuredTimes slow_run(const Plan& plan) {
  MeasuredTimes measured{.plan = plan.id, .steps = 10, .step = 2 * plan.predicted.step, .instructions = {}};
  for (const InstructionTime& time : times_of(plan).instructions) {
    measured.instructions.push_back({2 * time.start, 2 * time.end});
  }
  return measured;
}

TEST(MeasuredTimes, FilesKeepTheTimesOfInstructions) {
  const testing::PlannedPage page = plan_page(2, 1, 2);
  MeasuredTimes measured = slow_run(page.plan);
  measured.instructions[1] = {};
  const auto read = read_measured(measured_json(measured), "run.json", page.plan);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->steps, 10);
  EXPECT_EQ(read->step, measured.step);
  ASSERT_EQ(read->instructions.size(), measured.instructions.size());
  EXPECT_FALSE(read->instructions[1].known());
  EXPECT_EQ(read->instructions[0].end, measured.instructions[0].end);
}

TEST(MeasuredTimes, FilesOfOtherPlansAreRefused) {
  const testing::PlannedPage page = plan_page(2, 1, 2);
  const MeasuredTimes measured = slow_run(page.plan);
  const auto fault = [&](const std::string& text) {
    const auto read = read_measured(text, "run.json", page.plan);
    return read.ok() ? "" : read.error().code + " " + read.error().message;
  };
  MeasuredTimes other = measured;
  other.plan = "00000000";
  EXPECT_EQ(fault(measured_json(other)),
            "XG0638 `run.json` has the times of plan 00000000, this is plan " + page.plan.id);
  other = measured;
  other.instructions.pop_back();
  EXPECT_THAT(fault(measured_json(other)), HasSubstr("instructions, plan " + page.plan.id + " has"));
  for (const char* text : {"", "{", "[]", "{\"v\":2}", "{\"v\":1,\"plan\":7}"}) {
    EXPECT_EQ(fault(text), "XG0638 `run.json` is not a file of measured times of version 1") << text;
  }
  auto json = nlohmann::json::parse(measured_json(measured));
  json["instructions"][3] = {2.0, 1.0};
  EXPECT_EQ(fault(json.dump()), "XG0638 `run.json` has a wrong time of instruction 3, which is null or [begin, end]");
}

TEST(MeasuredTimes, ReportsCompareWithThePlan) {
  const testing::PlannedPage page = plan_page(2, 1, 2);
  const MeasuredTimes measured = slow_run(page.plan);
  const std::string text = measured_text(page.plan, measured);
  EXPECT_THAT(text, HasSubstr("medians of 10 steps"));
  EXPECT_THAT(text, HasSubstr("forward"));
  EXPECT_THAT(text, HasSubstr("2.00\n"));
  const auto json = nlohmann::json::parse(measured_gantt_json(page.plan, measured));
  EXPECT_EQ(json["measured"]["steps"], 10);
  for (const auto& one : json["instructions"]) {
    EXPECT_EQ(one["measured_end"].get<double>(), 2 * one["end"].get<double>());
  }
}

}  // namespace
}  // namespace xrun::planner
