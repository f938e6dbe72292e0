// The number of classes that fit into memory, and the costs of other choices for a large head.
#include "planner/search/class_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/planner.h"
#include "planner/report/classes.h"
#include "planner/report/json.h"
#include "planner/report/reason_text.h"
#include "planner/report/text.h"
#include "planner/search/head_choices.h"
#include "tests/planner/test_graphs.h"
#include "tests/support/optimizers.h"

namespace xrun::planner {
namespace {

using ::testing::HasSubstr;
using testing::make_facts;
using testing::make_module;
using ::testing::Not;
using testing::prepare_inference;
using testing::prepare_training;

struct Subject {
  explicit Subject(const Module& module, Bytes memory = 64 * kMiB, int devices = 2)
      : training(prepare_training(module)),
        inference(prepare_inference(module)),
        facts(make_facts(training)),
        inference_facts(make_facts(inference)),
        machine{.name = "2 x cpu", .cores = devices, .devices = devices, .threads = devices, .memory = memory} {}
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  Result<ClassFits> fit(std::function<bool()> in_time = [] { return true; }) const {
    return fit_classes({training, inference, facts, inference_facts, machine, false, std::move(in_time)});
  }
  Result<Plan> plan(const Module& changed, const Module& changed_inference) const {
    return make_plan(changed, changed_inference, facts, inference_facts, machine, {});
  }
  bool fits(int64_t classes, const HeadChoice& choice) const {
    return plan(with_classes(with_choice(training, 0, choice), 0, classes),
                with_classes(with_choice(inference, 0, choice), 0, classes))
        .ok();
  }

  Module training;
  Module inference;
  KernelFacts facts;
  KernelFacts inference_facts;
  Machine machine;
};

Module with_head(int64_t classes, double momentum = 0.9) {
  Module module = make_module({.layers = 2,
                               .input = 32,
                               .width = 32,
                               .classes = classes,
                               .head = true,
                               .batch = 64,
                               .norm_rows = 32,
                               .optimizer = "sgd",
                               .momentum = momentum});
  module.data.sources = {testing::source("train", "synthetic"), testing::source("test", "synthetic")};
  return module;
}

// Returns the next larger number with at most three significant digits.
int64_t next_number(int64_t classes) {
  int64_t unit = 1;
  while (classes / unit >= 1000) {
    unit *= 10;
  }
  return (classes / unit + 1) * unit;
}

TEST(ClassFit, TheReportedNumberOfClassesFitsAndTheNextDoesNot) {
  const Subject subject(with_head(1000));
  const ClassFits fits = subject.fit().value();
  EXPECT_EQ(fits.head, "id");
  EXPECT_EQ(fits.classes, 1000);
  EXPECT_EQ(fits.dim, 32);
  ASSERT_EQ(fits.choices.size(), 9U) << "rows in three formats, and all, a tenth, a hundredth of them active";
  const HeadChoice now{};
  for (size_t i = 0; i < 3; ++i) {
    const ClassFit& fit = fits.choices[i];
    EXPECT_TRUE(fit.complete);
    EXPECT_EQ(fit.limit, ClassLimit::kMemory);
    EXPECT_LE(fit.memory, subject.machine.memory);
    EXPECT_GT(fit.memory, subject.machine.memory * 9 / 10);
    HeadChoice choice = now;
    if (i > 0) {
      choice.active.kind = ActiveSpec::kSample;
      choice.active.amount = i == 1 ? 0.1 : 0.01;
    }
    EXPECT_EQ(fit.of_text, i == 0);
    EXPECT_TRUE(subject.fits(fit.classes, choice)) << fit.classes;
    EXPECT_FALSE(subject.fits(next_number(fit.classes), choice)) << fit.classes;
  }
  EXPECT_LT(fits.choices[1].step, fits.choices[0].step);
  EXPECT_LT(fits.choices[2].step, fits.choices[1].step);
  // A class row has 32 weights and 32 momenta of 4 bytes each.
  EXPECT_GT(fits.choices[0].classes, subject.machine.memory / 256 / 2);
  EXPECT_LT(fits.choices[0].classes, subject.machine.memory / 256);
  EXPECT_LT(fits.plans, 9 * 80);
}

TEST(ClassFit, TheLimitOfADeviceIsReported) {
  Module module = with_head(1000, 0);
  module.schedule.memory_limit = Hint<Bytes>{8 * kMiB, {}};
  const Subject subject(module);
  const ClassFits fits = subject.fit().value();
  EXPECT_EQ(fits.choices[0].limit, ClassLimit::kDevice);
  EXPECT_GT(fits.choices[0].classes, 2 * 8 * kMiB / 128 * 8 / 10) << "no optimizer state, two devices";
  EXPECT_THAT(report_classes(fits, subject.training, subject.machine), HasSubstr("memory_limit 8.0 MiB of a device"));
  // The limit and the figure next to it are for each device. A run has two devices and also evaluates.
  EXPECT_LE(fits.choices[0].device, 8 * kMiB);
  EXPECT_GT(fits.choices[0].device, 7 * kMiB);
  EXPECT_GT(fits.choices[0].memory, 14 * kMiB);
  EXPECT_THAT(report_classes(fits, subject.training, subject.machine),
              AllOf(HasSubstr("memory/device"), HasSubstr(format_bytes(fits.choices[0].device))));
}

TEST(ClassFit, AnUnfinishedSearchIsReported) {
  const Subject subject(with_head(1000));
  int left = 2;
  const ClassFits fits = subject.fit([&] { return left-- > 0; }).value();
  EXPECT_FALSE(fits.choices[0].complete);
  EXPECT_FALSE(fits.choices.back().complete);
  EXPECT_EQ(fits.choices.back().classes, 0);
  EXPECT_THAT(report_classes(fits, subject.training, subject.machine), HasSubstr("not found in time"));
}

TEST(ClassFit, AMissingHeadAndTooLittleMemoryAreErrors) {
  const auto headless = Subject(make_module({.layers = 2})).fit();
  ASSERT_FALSE(headless.ok());
  EXPECT_EQ(headless.error().code, "XG0629");
  const auto tiny = Subject(with_head(1000), 16 * kKiB).fit();
  ASSERT_FALSE(tiny.ok());
  EXPECT_EQ(tiny.error().code, "XG0601");
  EXPECT_EQ(tiny.error().kind, ErrorKind::kInfeasible);
  EXPECT_THAT(tiny.error().message, HasSubstr("not even a head of one class fits"));
  EXPECT_THAT(tiny.error().message, HasSubstr("16.0 KiB are usable"));
  Module limited = with_head(1000);
  limited.schedule.memory_limit = Hint<Bytes>{4 * kKiB, {}};
  const auto device = Subject(limited).fit();
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(device.error().message, HasSubstr("on a device, and `memory_limit` is 4.0 KiB"));
  EXPECT_EQ(device.error().help, "raise `memory_limit`, or leave it out");
}

TEST(ClassFit, TheTextAndTheJsonListEachChoice) {
  const Subject subject(with_head(1000));
  const ClassFits fits = subject.fit().value();
  const std::string page = report_classes(fits, subject.training, subject.machine, 100);
  EXPECT_THAT(page, HasSubstr("head `id` of 32 dims (the file has 1 000)"));
  EXPECT_THAT(page, HasSubstr("as in the file"));
  const auto document = nlohmann::json::parse(classes_json(fits, subject.training, subject.machine));
  ASSERT_EQ(document["choices"].size(), fits.choices.size());
  for (size_t i = 0; i < fits.choices.size(); ++i) {
    EXPECT_EQ(document["choices"][i]["classes"], fits.choices[i].classes);
    EXPECT_THAT(page, HasSubstr(format_count(fits.choices[i].classes)));
  }
}

TEST(HeadChoices, LeaveOutFormatsThatTheOptimizerDoesNotSupport) {
  Module module = with_head(1000);
  const Subject momentum(module);
  module.train.optimizer = test::optimizer("adamw");
  const Subject adam(module);
  module.train.optimizer = test::optimizer("lars");
  const Subject lars(module);
  module.train.optimizer = test::optimizer("lamb");
  const Subject lamb(module);
  const auto has_fp8 = [](const Subject& subject) {
    const ClassFits fits = subject.fit([] { return false; }).value();
    return std::ranges::any_of(fits.choices, [](const ClassFit& fit) { return fit.choice.weights == RowFormat::kFp8; });
  };
  EXPECT_TRUE(has_fp8(momentum));
  EXPECT_FALSE(has_fp8(adam));
  EXPECT_TRUE(has_fp8(lars)) << "class rows have no trust ratio";
  EXPECT_FALSE(has_fp8(lamb));
}

TEST(HeadChoices, ArePrintedAsSettingsOfTheText) {
  const HeadChoice all;
  HeadChoice tenth;
  tenth.active.kind = ActiveSpec::kSample;
  tenth.active.amount = 0.1;
  HeadChoice narrow = tenth;
  narrow.weights = narrow.states = RowFormat::kBf16;
  EXPECT_EQ(setting_text(tenth, all, "id", 1), "active_classes = sample(10%)");
  EXPECT_EQ(setting_text(narrow, tenth, "id", 1), "groups.id.weights = bf16, groups.id.states = bf16");
  EXPECT_EQ(setting_text(narrow, all, "id", 0), "active_classes = sample(10%), groups.id.weights = bf16");
  EXPECT_EQ(setting_text(all, tenth, "id", 0), "active_classes = all");
  // `untouched = exact` requires some active classes and f32 rows. A proposed choice must satisfy both.
  HeadChoice exact = tenth;
  exact.untouched = Untouched::kExact;
  EXPECT_EQ(setting_text(all, exact, "id", 0), "active_classes = all, groups.id.untouched = as_is");
}

// Only the plan of a large head lists the costs of other choices.
TEST(HeadChoices, ThePageOfAPlanHasTheirCosts) {
  for (const int64_t classes : {kLargeHead - 1, kLargeHead}) {
    const Subject subject(with_head(classes), kGiB);
    Plan plan = subject.plan(subject.training, subject.inference).value();
    ASSERT_TRUE(
        explain_head_choices(plan, subject.training, subject.inference, subject.facts, subject.inference_facts).ok());
    const std::string page = report_text(plan, subject.training);
    const auto document = nlohmann::json::parse(report_json(plan, subject.training));
    if (classes < kLargeHead) {
      EXPECT_TRUE(plan.costs.empty());
      EXPECT_THAT(page, Not(HasSubstr("rows moved")));
      EXPECT_FALSE(document.contains("head_choices"));
      continue;
    }
    ASSERT_EQ(plan.costs.size(), 5U) << "as it is, two shares of active classes, two formats";
    EXPECT_TRUE(plan.costs[0].chosen);
    EXPECT_DOUBLE_EQ(plan.costs[0].step, plan.predicted.step);
    // Both passes read the rows. One of them also writes the rows, and reads and writes the momentum.
    EXPECT_GE(plan.costs[0].moved, classes * 32 * 4 * 5);
    EXPECT_EQ(plan.costs[1].choice.active.kind, ActiveSpec::kSample);
    EXPECT_EQ(plan.costs[1].choice.active.amount, 0.1);
    EXPECT_EQ(head_choice_text(plan.costs[1]), "sample 10 %, f32, states f32");
    EXPECT_LT(plan.costs[1].step, plan.costs[0].step);
    EXPECT_LT(plan.costs[1].moved, plan.costs[0].moved / 5);
    EXPECT_EQ(plan.costs[3].choice.weights, RowFormat::kBf16);
    EXPECT_EQ(head_choice_text(plan.costs[3]), "all, bf16, states bf16");
    EXPECT_THAT(page, HasSubstr("rows moved"));
    EXPECT_THAT(page, HasSubstr("chosen"));
    EXPECT_EQ(document["head_choices"]["head"], "id");
    EXPECT_EQ(document["head_choices"]["choices"].size(), 5U);
  }
}

}  // namespace
}  // namespace xrun::planner
