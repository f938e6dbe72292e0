// Estimates of steps are close to the predictions of programs, for generated models and machines.
#include "planner/search/step_estimate.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "planner/search/fit.h"
#include "tests/planner/generated_models.h"

namespace xrun::planner {
namespace {

// The programs of a candidate have no kept logits here, which estimates leave out. With very many micro-batches, their
// gradients of features also wait for one another on the way from a head, which estimates leave out.
TEST(StepEstimate, IsNearThePredictionsOfPrograms) {
  struct Errors {
    double sum = 0;
    int count = 0;
  };
  Errors plain;   // GPipe and 1F1B
  Errors others;  // pipelines that the search also compares
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const testing::Generated made = testing::generate_model(seed);
    const Module training = testing::prepare_training(made.module);
    const Module inference = testing::prepare_inference(made.module);
    const KernelFacts facts = testing::make_facts(training);
    const KernelFacts inference_facts = testing::make_facts(inference);
    const CostModel cost(facts, made.machine);
    const CostModel inference_cost(inference_facts, made.machine);
    const Chain chain = make_chain(training, cost);
    const Chain inference_chain = make_chain(inference, inference_cost);
    const SearchInput space{training, chain, cost, made.machine, layer_hints(training, chain).value()};
    const FitInput input{space, inference, inference_facts, inference_chain, inference_cost};
    std::vector<Setting> settings = legal_settings(training, chain, made.machine, false).value();
    for (size_t i = 0; i < settings.size(); i += 1 + settings.size() / 24) {
      if (settings[i].micro_batches > 16) {
        continue;
      }
      const std::vector<Candidate> decided = decide(space, settings[i], Recompute::kNone).value();
      for (const Candidate& candidate : decided) {
        const double program = realise(input, candidate).value().predicted.step;
        const double error = std::abs(std::log(candidate.predicted.step / program));
        EXPECT_LT(error, 0.6) << "seed " << seed << ", " << made.text << ", " << to_text(settings[i]);
        Errors& errors = settings[i].is_plain() ? plain : others;
        errors.sum += error;
        ++errors.count;
      }
    }
  }
  EXPECT_GT(plain.count, 60);
  EXPECT_LT(plain.sum / plain.count, 0.06);
  EXPECT_GT(others.count, 60);
  EXPECT_LT(others.sum / others.count, 0.08);
}

}  // namespace
}  // namespace xrun::planner
