#include "planner/report/sweep/sweep_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/report/sweep/sweep_page.h"
#include "tests/planner/report/page/planned_pages.h"
#include "tests/support/golden.h"

namespace xrun::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SweepPoint point(const std::vector<std::string>& values, Seconds step, const std::string& stages,
                 const std::string& pipeline = "gpipe") {
  SimulatedPlan plan{
      .id = "0a1b2c3d",
      .machine = "16 x h100 on 2 nodes",
      .devices = 16,
      .memory = 3 * kGiB,
      .tightest = {"each h100", 3 * kGiB, 4 * kGiB},
      .step = step,
      .samples_per_second = 1024 / step,
      .idle = 0.125,
      .settings = {{"stages", stages},
                   {"replicas", "1"},
                   {"micro_batches", "4"},
                   {"pipeline", pipeline},
                   {"shards", "8"},
                   {"recompute", "none"}},
      .limit = "head",
      .parts = {.device = 3,
                .parts = {{"backbone", 0.75 * step, 0.75 * step}, {"sends between stages", 0.25 * step, 0.5 * step}}},
      .samples = 0,
      .epoch = std::nullopt,
      .not_run = {"GPUs cannot run trainings in f16 (XG0634): planned by cost forms"}};
  return {.values = values, .plan = std::move(plan)};
}

Sweep two_keys() {
  Sweep sweep{.model = "face", .costs = "formulas", .keys = {"cluster.nodes", "train.batch"}};
  sweep.points = {point({"1", "64"}, 0.4, "1"), point({"1", "128"}, 0.8, "1"),
                  point({"2", "64"}, 0.1, "2", "one_f_one_b"), point({"2", "128"}, 0.2, "2")};
  sweep.points.push_back(
      {.values = {"4", "64"}, .plan = std::nullopt, .code = "XG0601", .reason = "does not fit, \"really\""});
  return sweep;
}

TEST(SweepText, ThePageHasAllPointsAndTheWinners) {
  EXPECT_TRUE(test::matches_golden(report_sweep(two_keys()), "simulate/two_keys.txt"));
}

TEST(SweepText, OnePlanShowsWhereItsStepGoes) {
  Sweep sweep = two_keys();
  sweep.keys.clear();
  sweep.points = {point({}, 0.4, "2")};
  sweep.points[0].plan->samples = 1000;
  sweep.points[0].plan->epoch = 80;
  sweep.points[0].plan->parts.lists = 0.1;
  EXPECT_TRUE(test::matches_golden(report_sweep(sweep), "simulate/one_plan.txt"));
}

TEST(SweepText, CellsOfCsvAreQuotedWhereNeeded) {
  EXPECT_TRUE(test::matches_golden(sweep_csv(two_keys()), "simulate/two_keys.csv"));
}

TEST(SweepText, AValueWinsByTheKeyThatAloneDecidesIt) {
  const std::vector<Winner> all = winners(two_keys());
  const auto where = [&](const std::string& decision, const std::string& value) {
    for (const Winner& one : all) {
      if (one.decision == decision && one.value == value) {
        return one.where;
      }
    }
    return std::string("nowhere");
  };
  EXPECT_EQ(where("replicas", "1"), "everywhere");
  EXPECT_EQ(where("stages", "1"), "nodes = 1");
  EXPECT_EQ(where("stages", "2"), "nodes = 2");
  EXPECT_EQ(where("pipeline", "one_f_one_b"), "1 of 4 points: nodes = 2, batch = 64");
}

TEST(SweepText, SpeedUpIsOverTheFirstPointWithAPlan) {
  Sweep sweep = two_keys();
  EXPECT_EQ(sweep.fastest(), 2U);
  EXPECT_DOUBLE_EQ(sweep.speed_up(sweep.points[2]), 4);
  std::swap(sweep.points[0], sweep.points[4]);
  EXPECT_EQ(sweep.first(), 1U);
  EXPECT_DOUBLE_EQ(sweep.speed_up(sweep.points[2]), 8);
}

TEST(SweepText, AFitNamesTheMemoryTheNextValueAndWhatIsOutOfOrder) {
  Sweep sweep{.model = "face", .costs = "formulas", .keys = {"train.batch"}};
  sweep.points = {point({"64"}, 0.4, "1"),
                  {.values = {"65"}, .plan = {}, .code = "XG0601", .reason = "does not fit"},
                  point({"66"}, 0.4, "1")};
  sweep.fit = KeyFit{.largest = 0, .next = 1, .out_of_order = {2}};
  EXPECT_EQ(
      fit_text(sweep),
      "the largest batch with a plan is 64, bound by memory: 3.0 GiB of the 4.0 GiB of each h100 (75 %); 65 has none: "
      "XG0601: does not fit; plans do not end there: 66 has one");
  sweep.points[1].code = "XG0602";
  sweep.fit->out_of_order = {};
  EXPECT_EQ(fit_text(sweep),
            "the largest batch with a plan is 64, bound by what is legal; 65 has none: XG0602: does not fit");
  sweep.fit->next = std::nullopt;
  EXPECT_EQ(fit_text(sweep), "batch = 64 has a plan, and no larger value was tried");
  sweep.fit->complete = false;
  EXPECT_EQ(fit_text(sweep), "batch = 64 has a plan, and the time ran out before a largest value was found");
}

TEST(SweepPage, MakesNoRequestAndNamesCannotEndTheScript) {
  Sweep sweep = two_keys();
  sweep.model = "a</script><b>&\"c";
  const std::string page = sweep_page(sweep);
  EXPECT_THAT(page, Not(HasSubstr("<script src")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, Not(HasSubstr("fetch(")));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("<title>a&lt;/script>&lt;b>&amp;"));
  const std::string mark = "id=\"plan-data\">";
  const size_t begin = page.find(mark) + mark.size();
  const auto data = nlohmann::ordered_json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data, sweep_document(sweep));
  EXPECT_EQ(data["v"], 1);
  EXPECT_EQ(data["points"][4]["error"]["code"], "XG0601");
  EXPECT_EQ(data["points"][2]["values"]["cluster.nodes"], "2");
  EXPECT_EQ(data["fastest"], 2);
}

}  // namespace
}  // namespace xrun::planner
