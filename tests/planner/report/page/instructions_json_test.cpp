#include "planner/report/page/instructions_json.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/report/page/memory_curve.h"
#include "planner/report/summary.h"
#include "tests/planner/report/page/planned_pages.h"

namespace xrun::planner {
namespace {

using testing::plan_page;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

TEST(InstructionsJson, NamesDependenciesGroupsAndBytes) {
  const testing::PlannedPage page = plan_page(2, 1, 2);
  const auto json = nlohmann::json::parse(gantt_json(page.plan));
  const auto& all = page.plan.training.instructions;
  ASSERT_EQ(json["instructions"].size(), all.size());
  const ProgramTimes times = times_of(page.plan);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& one = json["instructions"][i];
    EXPECT_EQ(one["id"], i);
    EXPECT_EQ(one["what"], name_of(all[i].kind));
    EXPECT_EQ(one["bytes"], all[i].bytes);
    EXPECT_EQ(one["seconds"], all[i].predicted);
    EXPECT_EQ(one["begin"], times.instructions[i].start);
    EXPECT_EQ(one["end"], times.instructions[i].end);
    ASSERT_EQ(one["after"].size(), all[i].deps.size());
    for (size_t d = 0; d < all[i].deps.size(); ++d) {
      EXPECT_EQ(one["after"][d], all[i].deps[d].index);
    }
    EXPECT_EQ(one.contains("group"), all[i].group >= 0);
  }
  const auto first = std::ranges::find(all, Kind::kForward, &Instruction::kind);
  ASSERT_NE(first, all.end());
  const auto& forward = json["instructions"][static_cast<size_t>(first - all.begin())];
  EXPECT_EQ(forward["first_op"], "stem");
  EXPECT_EQ(forward["ops"], first->nodes.size());
  EXPECT_EQ(forward["source"].get<std::string>().substr(0, 13), "small.xgraph:");
}

// The peak of each curve is the sum that the planner found when it packed the buffers.
TEST(InstructionsJson, MemoryCurvesPeakWhereThePlanDoes) {
  for (const int devices : {1, 2, 4}) {
    const testing::PlannedPage page = plan_page(devices, 1, devices == 1 ? 1 : 2);
    const Program& program = page.plan.training;
    const ProgramTimes times = times_of(page.plan);
    const std::vector<MemoryCurve> curves = memory_curves(program, times);
    ASSERT_EQ(curves.size(), program.arenas.size());
    for (size_t a = 0; a < curves.size(); ++a) {
      const MemoryCurve& curve = curves[a];
      EXPECT_EQ(curve.device, program.arenas[a].device);
      EXPECT_EQ(curve.peak, program.arenas[a].live_max) << "device " << curve.device;
      EXPECT_EQ(std::ranges::max(curve.points, {}, &MemoryPoint::bytes).bytes, curve.peak);
      EXPECT_TRUE(std::ranges::is_sorted(curve.points, {}, &MemoryPoint::time));
      EXPECT_EQ(curve.points.front().bytes, curve.always);
      EXPECT_EQ(curve.points.back().time, times.makespan);
      EXPECT_LE(curve.peak_time, times.makespan);
    }
    const auto json = nlohmann::json::parse(gantt_json(page.plan))["memory_curves"];
    ASSERT_EQ(json.size(), curves.size());
    EXPECT_EQ(json.back()["peak"]["bytes"], curves.back().peak);
    EXPECT_FALSE(json.back()["peak"]["what"].get<std::string>().empty());
  }
}

TEST(InstructionsJson, CsvHasALineForEachInstruction) {
  const testing::PlannedPage page = plan_page(2, 1, 2);
  const std::vector<std::string> lines = lines_of(instructions_csv(page.plan));
  ASSERT_EQ(lines.size(), 1 + page.plan.training.instructions.size());
  EXPECT_EQ(lines[0],
            "id,device,stream,what,stage,replica,micro_batch,head,head_pass,shard,group,ops,first_op,last_op,flops,"
            "bytes,seconds,begin,end,after,released,source");
  const auto commas = std::ranges::count(lines[0], ',');
  for (const std::string& line : lines) {
    EXPECT_EQ(std::ranges::count(line, ','), commas) << line;
  }
}

TEST(InstructionsJson, TextsOfCsvAreQuoted) {
  testing::PlannedPage page = plan_page(1, 1, 1);
  for (SourceLine& line : page.plan.kept->lines) {
    line.file = "a \"b\",c.xgraph";
  }
  EXPECT_NE(instructions_csv(page.plan).find(",\"a \"\"b\"\",c.xgraph:"), std::string::npos);
}

}  // namespace
}  // namespace xrun::planner
