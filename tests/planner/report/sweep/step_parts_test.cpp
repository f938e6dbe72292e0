#include "planner/report/sweep/step_parts.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "planner/report/summary.h"
#include "tests/planner/report/page/planned_pages.h"

namespace xrun::planner {
namespace {

using testing::plan_page;

Seconds time_of(const StepParts& parts, const std::string& name) {
  const auto found = std::ranges::find(parts.parts, name, &StepPart::name);
  return found == parts.parts.end() ? 0 : found->time;
}

TEST(StepParts, PartsAddUpToTheStep) {
  for (const auto& [devices, nodes, stages] : {std::tuple(1, 1, 1), {2, 1, 2}, {4, 1, 1}, {4, 2, 2}, {8, 2, 1}}) {
    const testing::PlannedPage page = plan_page(devices, nodes, stages);
    const StepParts made = step_parts(page.plan, page.training);
    Seconds sum = 0;
    for (const StepPart& part : made.parts) {
      EXPECT_GE(part.time, 0) << part.name;
      EXPECT_GE(part.whole, part.time) << part.name;
      sum += part.time;
    }
    EXPECT_NEAR(sum, page.plan.predicted.step, 1e-9 * page.plan.predicted.step)
        << devices << " devices, " << nodes << " nodes, " << stages << " stages";
  }
}

// The computations of the device are those of the program, and no other device computes longer.
TEST(StepParts, TheDeviceIsTheOneThatComputesMost) {
  const testing::PlannedPage page = plan_page(4, 1, 2);
  const StepParts made = step_parts(page.plan, page.training);
  const ProgramTimes times = times_of(page.plan);
  std::vector<Seconds> passes(4);
  std::vector<Seconds> all(4);
  for (const Instruction& one : page.plan.training.instructions) {
    const InstructionTime& time = times.instructions[static_cast<size_t>(one.id.index)];
    passes[static_cast<size_t>(one.device)] += is_stage_pass(one.kind) ? time.end - time.start : 0;
    all[static_cast<size_t>(one.device)] +=
        one.stream == Stream::kCompute && !communicates(one.kind) ? time.end - time.start : 0;
  }
  EXPECT_NEAR(time_of(made, "backbone"), passes[static_cast<size_t>(made.device)], 1e-12);
  EXPECT_EQ(all[static_cast<size_t>(made.device)], std::ranges::max(all));
  EXPECT_GT(time_of(made, "head"), 0);
}

// A slow network makes the exposed exchanges of heads longer; their hidden part is not counted twice.
TEST(StepParts, ExchangesCountWithTheTimeThatIsNotHidden) {
  const testing::PlannedPage page = plan_page(4, 2, 1);
  const StepParts made = step_parts(page.plan, page.training);
  const auto found = std::ranges::find(made.parts, "gathers and scatters of heads", &StepPart::name);
  ASSERT_NE(found, made.parts.end());
  Seconds exchanges = 0;
  const ProgramTimes times = times_of(page.plan);
  for (const Instruction& one : page.plan.training.instructions) {
    const InstructionTime& time = times.instructions[static_cast<size_t>(one.id.index)];
    const bool counts = one.device == made.device && communicates(one.kind) && one.head >= 0;
    exchanges += counts ? time.end - time.start : 0;
  }
  EXPECT_NEAR(found->whole, exchanges, 1e-12);
}

}  // namespace
}  // namespace xrun::planner
