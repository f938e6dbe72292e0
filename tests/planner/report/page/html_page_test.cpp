#include "planner/report/page/html_page.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/report/json.h"
#include "planner/report/page/alike_devices.h"
#include "planner/report/page/instructions_json.h"
#include "planner/report/page/page_json.h"
#include "planner/report/page/schedule_json.h"
#include "planner/report/page/what_if.h"
#include "planner/report/summary.h"
#include "tests/planner/report/page/planned_pages.h"

namespace xrun::planner {
namespace {

using Json = nlohmann::json;
using testing::plan_page;

constexpr size_t kMostBytes = 2'000'000;

// Returns the data of a page.
Json data_of(const std::string& page) {
  const std::string mark = "id=\"plan-data\">";
  const size_t begin = page.find(mark) + mark.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(HtmlPage, NumbersAreThoseOfTheJson) {
  const testing::PlannedPage page = plan_page(2, 1, 2);
  const Json data = data_of(html_page(page.plan, page.training));
  EXPECT_EQ(data["report"], Json::parse(report_json(page.plan, page.training)));
  const Json gantt = Json::parse(gantt_json(page.plan));
  const Json& columns = data["schedule"]["columns"];
  ASSERT_GT(columns["id"].size(), 10U);
  EXPECT_EQ(data["schedule"]["left_out"], 0);
  std::set<int> drawn;
  for (size_t i = 0; i < columns["id"].size(); ++i) {
    const Json& one = gantt["instructions"][columns["id"][i].get<size_t>()];
    drawn.insert(columns["id"][i].get<int>());
    EXPECT_EQ(columns["begin"][i], std::llround(one["begin"].get<double>() * 1e9));
    EXPECT_EQ(columns["end"][i], std::llround(one["end"].get<double>() * 1e9));
    EXPECT_EQ(columns["bytes"][i], one["bytes"]);
    EXPECT_EQ(columns["group"][i], one.value("group", -1));
    EXPECT_EQ(data["schedule"]["kinds"][columns["kind"][i].get<size_t>()], one["what"]);
    EXPECT_EQ(data["schedule"]["devices"][columns["row"][i].get<size_t>()]["device"], one["device"]);
    const std::string source = one.value("source", "");
    const int line = columns["line"][i];
    EXPECT_EQ(line < 0
                  ? ""
                  : data["schedule"]["lines"][static_cast<size_t>(line)].get<std::string>().substr(0, source.size()),
              source);
  }
  size_t on_devices = 0;
  for (const Json& one : gantt["instructions"]) {
    on_devices += one["device"] == "host" ? 0 : 1;
  }
  EXPECT_EQ(drawn.size(), on_devices);
  ASSERT_EQ(data["memory"].size(), gantt["memory_curves"].size());
  for (size_t c = 0; c < data["memory"].size(); ++c) {
    EXPECT_EQ(data["memory"][c]["peak"], gantt["memory_curves"][c]["peak"]);
    EXPECT_EQ(data["memory"][c]["arena"], gantt["memory_curves"][c]["arena"]);
  }
}

// An instruction starts with the step, or when the instruction ends that the page names as its predecessor.
// The script groups the parts of split backward passes by the beginning of their labels.
TEST(HtmlPage, GradientsOfInputsAndOfWeightsHaveLettersOfTheirOwn) {
  const testing::PlannedPage page = plan_page(2, 1, 2, "small", PipelineKind::kZeroBubble);
  const std::string html = html_page(page.plan, page.training);
  const Json schedule = data_of(html)["schedule"];
  const Json gantt = Json::parse(gantt_json(page.plan));
  std::map<std::string, int> parts;
  for (size_t i = 0; i < schedule["columns"]["id"].size(); ++i) {
    const std::string part = gantt["instructions"][schedule["columns"]["id"][i].get<size_t>()].value("part", "");
    const std::string label = schedule["labels"][schedule["columns"]["label"][i].get<size_t>()];
    if (!part.empty()) {
      ++parts[part];
      EXPECT_TRUE(label.starts_with(part)) << label;
    }
    EXPECT_EQ(label.starts_with("input gradient") || label.starts_with("weight gradient"), !part.empty()) << label;
  }
  EXPECT_GT(parts["input gradient"], 0);
  EXPECT_EQ(parts["input gradient"], parts["weight gradient"]);
  EXPECT_EQ(count_of(html, "label.startsWith('input gradient') ? 'inputs'"), 1U);
  EXPECT_EQ(count_of(html, "label.startsWith('weight gradient') ? 'weights'"), 1U);
  EXPECT_EQ(count_of(html, "inputs: ['inputs', 'I', "), 1U);
  EXPECT_EQ(count_of(html, "weights: ['weights', 'W', "), 1U);
}

TEST(HtmlPage, InstructionsStartWhenTheirPredecessorEnds) {
  for (const auto& [devices, stages] : {std::pair(2, 2), std::pair(4, 1), std::pair(1, 1)}) {
    const testing::PlannedPage page = plan_page(devices, 1, stages);
    const Json schedule = data_of(html_page(page.plan, page.training))["schedule"];
    const ProgramTimes times = times_of(page.plan);
    const Json& columns = schedule["columns"];
    size_t waiting = 0;
    for (size_t i = 0; i < columns["id"].size(); ++i) {
      const auto& one = page.plan.training.instructions[columns["id"][i].get<size_t>()];
      const int after = columns["after"][i];
      const int64_t begin = columns["begin"][i];
      ASSERT_EQ(after < 0 ? 0 : whole_nanoseconds(times.instructions[static_cast<size_t>(after)].end), begin)
          << "instruction " << one.id.index << " after " << after;
      std::set<int> needs{after};
      for (const Json& id : columns["needs"][i]) {
        EXPECT_TRUE(needs.insert(id.get<int>()).second) << "a dependence is listed twice";
        EXPECT_LE(whole_nanoseconds(times.instructions[id.get<size_t>()].end), begin);
      }
      for (const auto* list : {&one.deps, &one.releases}) {
        for (const InstructionId id : *list) {
          EXPECT_TRUE(needs.contains(id.index)) << "a dependence of " << one.id.index << " is not listed";
        }
      }
      waiting += after >= 0 ? 1 : 0;
    }
    EXPECT_GT(waiting, 4U);
  }
}

TEST(HtmlPage, PartsOfAPeakListTheirLargestBuffers) {
  const testing::PlannedPage page = plan_page(2, 1, 2);
  for (const Json& curve : data_of(html_page(page.plan, page.training))["memory"]) {
    int64_t sum = 0;
    for (const Json& part : curve["parts"]) {
      sum += part[1].get<int64_t>();
      int64_t listed = 0;
      for (const Json& buffer : part[2]) {
        EXPECT_FALSE(buffer[0].get<std::string>().empty());
        EXPECT_LE(buffer[1], part[2][0][1]);
        listed += buffer[1].get<int64_t>();
      }
      EXPECT_LE(listed, part[1].get<int64_t>());
      EXPECT_EQ(part[3] == part[2].size(), listed == part[1].get<int64_t>()) << part.dump();
    }
    EXPECT_EQ(sum, curve["peak"]["bytes"]);
  }
}

// No change makes the step longer, and the limit of the plan is among the changes that make it shorter.
TEST(HtmlPage, FasterPartsMakeTheStepShorter) {
  const testing::PlannedPage page = plan_page(2, 1, 2);
  const std::vector<WhatIf> all = what_ifs(page.plan, times_of(page.plan));
  ASSERT_EQ(all.size(), 5U);  // two of exchanges, one for each of two stages, one of heads
  for (const WhatIf& one : all) {
    EXPECT_LE(one.step, page.plan.predicted.step * (1 + 1e-9)) << one.change;
    EXPECT_GT(one.step, 0) << one.change;
  }
  EXPECT_LE(all[1].step, all[0].step) << "exchanges without a time are no slower than exchanges of half the time";
  EXPECT_LT(std::ranges::min(all, {}, &WhatIf::step).step, 0.99 * page.plan.predicted.step);
}

TEST(HtmlPage, CoresAndMemoryAreAmongTheFasterPartsOfAPlanThatLacksThem) {
  testing::PlannedPage page = plan_page(2, 1, 2);
  Stage& stage = page.plan.training.stages[0];
  stage.recomputed = stage.forward;
  page.plan.machine.cores = 1;
  const auto times = simulate(page.plan.training, page.plan.machine);
  ASSERT_TRUE(times.ok());
  page.plan.predicted.step = times->makespan;
  std::map<std::string, Seconds> steps;
  for (const WhatIf& one : what_ifs(page.plan, *times)) {
    steps[one.change] = one.step;
    EXPECT_EQ(one.part.empty(), one.change != "exchanges take no time" && !one.change.starts_with("no layer"));
  }
  ASSERT_EQ(steps.size(), 7U);
  EXPECT_LT(steps.at("a core for each worker"), page.plan.predicted.step);
  EXPECT_LT(steps.at("no layer runs again, with memory for all activations"), page.plan.predicted.step);
}

TEST(HtmlPage, MakesNoRequest) {
  const testing::PlannedPage page = plan_page(2, 1, 2);
  const std::string text = html_page(page.plan, page.training);
  EXPECT_EQ(text.find("<script src"), std::string::npos);
  EXPECT_EQ(text.find("url("), std::string::npos);
  EXPECT_EQ(text.find("@import"), std::string::npos);
  EXPECT_EQ(text.find("fetch("), std::string::npos);
  // The only address is the name of the SVG namespace.
  EXPECT_EQ(count_of(text, "http://") + count_of(text, "https://"), 1U);
  EXPECT_NE(text.find("default-src 'none'"), std::string::npos);
  EXPECT_LT(text.size(), kMostBytes);
}

TEST(HtmlPage, NamesCannotEndTheScript) {
  const testing::PlannedPage page = plan_page(1, 1, 1, "a</script><b>&\"c");
  const std::string text = html_page(page.plan, page.training);
  EXPECT_EQ(count_of(text, "</script>"), 2U);
  EXPECT_EQ(data_of(text)["report"]["model"], "a</script><b>&\"c");
  EXPECT_NE(text.find("<title>a&lt;/script>&lt;b>&amp;"), std::string::npos);
}

// One of the devices that do the same work is drawn, so that the page of a large cluster stays small.
TEST(HtmlPage, DevicesThatAreAlikeAreDrawnOnce) {
  const testing::PlannedPage page = plan_page(64, 8, 1);
  const std::string text = html_page(page.plan, page.training);
  EXPECT_LT(text.size(), kMostBytes);
  const Json data = data_of(text);
  size_t devices = data["schedule"]["left_out"];
  for (const Json& group : data["schedule"]["devices"]) {
    devices += group["alike"].size();
    EXPECT_LE(group["busy"][0], group["busy"][1]);
  }
  EXPECT_EQ(devices, 64U);
  EXPECT_LT(data["schedule"]["devices"].size(), 16U);
  const auto few = alike_devices(plan_page(4, 1, 1).plan.training, times_of(plan_page(4, 1, 1).plan));
  EXPECT_EQ(few.size(), 4U) << "a few devices are all drawn";
}

TEST(HtmlPage, MeasuredTimesLieOverThePlan) {
  const testing::PlannedPage page = plan_page(2, 1, 2);
  MeasuredTimes measured{.plan = page.plan.id, .steps = 10, .step = 0.5, .instructions = {}};
  for (const InstructionTime& time : times_of(page.plan).instructions) {
    measured.instructions.push_back({time.start, 2 * time.end});
  }
  measured.instructions[0] = {};
  const Json data = data_of(html_page(page.plan, page.training, &measured));
  EXPECT_EQ(data["measured"]["step_seconds"], 0.5);
  const Json& columns = data["schedule"]["columns"];
  ASSERT_EQ(data["measured"]["times"].size(), columns["id"].size());
  for (size_t i = 0; i < columns["id"].size(); ++i) {
    const auto& run = measured.instructions[columns["id"][i].get<size_t>()];
    EXPECT_EQ(data["measured"]["times"][i],
              run.known() ? Json({std::llround(run.begin * 1e9), std::llround(run.end * 1e9)}) : Json());
  }
}

}  // namespace
}  // namespace xrun::planner
