#include "planner/planner.h"

#include <algorithm>
#include <cstdio>

#include "graph/base/random.h"
#include "planner/cost/graph_builds.h"
#include "planner/report/explain.h"
#include "planner/report/idle.h"
#include "planner/search/certificate.h"
#include "planner/search/choose.h"
#include "planner/search/fixes.h"
#include "planner/search/head_choices.h"
#include "planner/search/layer_hints.h"
#include "planner/search/search.h"
#include "planner/step_programs.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

Status check_memory(const ClusterSpec& cluster, const Machine& machine) {
  if (machine.memory > 0) {
    return {};
  }
  const std::string kept = cluster.reserve >= 0 ? "`reserve` keeps back " + format_bytes(cluster.reserve)
                                                : "the system keeps 256 MiB or more";
  const std::string whole =
      cluster.memory > 0 ? "the " + format_bytes(cluster.memory) + " of `node.memory`" : "what the machine has";
  return Error{ErrorKind::kInfeasible, "XG0601", "no memory is left for a plan: " + kept + " of " + whole,
               "in `cluster`, give more `memory` or a smaller `reserve`", cluster.span};
}

// Rejects a plan for a growing batch if one of its smaller steps does not fit into memory. The search compares plans
// only by their largest steps; smaller steps rarely need more memory.
Status check_smaller_steps(const Plan& plan, const Module& training, const MemoryLimits& limits) {
  const RunMemory memory = run_memory(training, plan.training, plan.inference);
  const Bytes all = memory.sum();
  const Bytes node = limits.node > 0 ? std::ranges::max(memory_of_nodes(plan.training, plan.machine)) : 0;
  if (plan.smaller.empty() || limits.share(all, memory.largest_device(), node) <= 1) {
    return {};
  }
  return Error{ErrorKind::kInfeasible, "XG0601",
               "the first steps of the growing batch need " + format_bytes(all) + ", more than the last ones",
               "ask for fewer micro-batches in `schedule`, or make the sizes of `grow` smaller",
               training.train.growth->span};
}

std::string digest_text(const Plan& plan, const Graph& training, const Graph& inference) {
  const uint64_t hash = stable_hash(print(plan.training, training) + print(plan.inference, inference) +
                                    plan.math_digest + plan.facts_digest + plan.machine.name);
  char text[16];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(hash ^ (hash >> 32)));
  return text;
}

// The candidates of a search, and the programs that were made of some of them.
struct Found {
  std::vector<Setting> settings;
  std::vector<Candidate> candidates;
  Choice choice;
};

// Searches all legal settings. If the time for the search is limited, those that are likely to be fast come first.
// Errors: those of legal_settings, search and choose; kContent XG0608 if no cuts meet the pins.
Result<Found> find_plans(SearchInput& space, const FitInput& input, Certifier& certifier, int wanted) {
  const Module& training = space.module;
  Found found;
  XRUN_ASSIGN(found.settings, legal_settings(training, space.chain, space.machine, space.deterministic));
  if (space.in_time) {
    XRUN_ASSIGN(found.settings, certifier.in_order(std::move(found.settings)));
  }
  XRUN_ASSIGN(found.candidates, search(space, found.settings));
  if (found.candidates.empty()) {
    const Span span = training.schedule.pins.empty() ? training.schedule.span : training.schedule.pins[0].span;
    return Error{ErrorKind::kContent, "XG0608", "no cuts put every pinned layer on its stage",
                 "stages hold layers in the order in which the model has them, and none is empty", span};
  }
  const bool complete = !space.is_over();
  const MemoryLimits limits = memory_limits(training, space.machine);
  XRUN_ASSIGN(found.choice, choose(input, found.candidates, limits, {.wanted = wanted}));
  if (found.choice.fitted.empty() && !complete) {
    // None of the settings that were reached in time fits, so the others are searched until a program fits.
    space.in_time = nullptr;
    XRUN_ASSIGN(found.candidates, search(space, found.settings));
    XRUN_ASSIGN(found.choice, choose(input, found.candidates, limits, {.wanted = 1}));
  }
  found.choice.complete = found.choice.complete && complete;
  return found;
}

}  // namespace

Result<Plan> make_plan(const Module& training, const Module& inference, const KernelFacts& training_facts,
                       const KernelFacts& inference_facts, const Machine& machine, const PlannerOptions& options) {
  const bool deterministic = options.deterministic || training.train.deterministic;
  XRUN_TRY(check_size(training, true));
  if (!options.by_forms) {
    XRUN_TRY(check_gpus(training, training_facts, machine));
    XRUN_TRY(check_gpus(inference, inference_facts, machine));
  }
  XRUN_TRY(check_memory(training.cluster, machine));
  const CostModel cost(training_facts, machine);
  const CostModel inference_cost(inference_facts, machine);
  const Chain chain = make_chain(training, cost);
  const Chain inference_chain = make_chain(inference, inference_cost);
  XRUN_ASSIGN(LayerHints hints, layer_hints(training, chain));
  SearchInput space{training, chain, cost, machine, std::move(hints), deterministic, options.progress, options.in_time};
  const FitInput input{space, inference, inference_facts, inference_chain, inference_cost};

  Certifier certifier(space);
  XRUN_ASSIGN(Found found, find_plans(space, input, certifier, options.emitted));
  const MemoryLimits limits = memory_limits(training, machine);
  Choice& choice = found.choice;
  if (choice.fitted.empty()) {
    const auto fixes =
        options.fixes ? find_fixes(training, input, limits, choice, options.facts_of) : std::vector<std::string>();
    return explain_infeasible(space, choice.smallest, limits, fixes, options.facts_of != nullptr);
  }

  space.begin("the chosen program is verified");
  for (Fitted& fitted : choice.fitted) {
    set_idle(fitted.predicted, fitted.training, machine);
  }
  Fitted& best = choice.fitted[0];
  Plan plan{.model = training.model, .machine = machine};
  plan.predicted = best.predicted;
  plan.why = explain(space, choice, found.candidates, found.settings);
  plan.alternatives = list_alternatives(training, choice.fitted);
  plan.other_kinds = list_other_kinds(training, choice, found.candidates);
  XRUN_ASSIGN(plan.certificate, certifier.certify(found.settings, limits, best));
  plan.certificate->complete = choice.complete;
  plan.certificate->compared = choice.complete ? 0 : choice.compared;
  plan.training = std::move(best.training);
  XRUN_TRY(add_step_programs(plan, training, training_facts));
  plan.graphs = graph_builds(plan.training, cost);
  plan.inference = std::move(best.inference);
  XRUN_TRY(check_smaller_steps(plan, training, limits));
  XRUN_TRY(verify_hints(plan.training, training, machine));
  // The rules of the verifier are those of the executors, which cannot run a plan with gaps.
  if (check_gpus(training, training_facts, machine).ok() && check_gpus(inference, inference_facts, machine).ok()) {
    XRUN_TRY(verify_program(plan.training, training, limits.total));
    XRUN_TRY(verify_program(plan.inference, inference, limits.total));
  }
  plan.sources = training.sources;
  plan.math_digest = training.math_digest;
  plan.facts_digest = training_facts.digest;
  plan.isa = training_facts.isa;
  plan.id = digest_text(plan, training.graph, inference.graph);
  return plan;
}

Status complete_plan(Plan& plan, const Module& training, const KernelFacts& training_facts) {
  plan.graphs = graph_builds(plan.training, CostModel(training_facts, plan.machine));
  return add_step_programs(plan, training, training_facts);
}

Status explain_head_choices(Plan& plan, const Module& training, const Module& inference,
                            const KernelFacts& training_facts, const KernelFacts& inference_facts) {
  const auto largest = largest_head(plan.training.heads);
  if (!largest || plan.training.heads[*largest].classes < kLargeHead) {
    return {};
  }
  const HeadPlan& head = plan.training.heads[*largest];
  const CostModel cost(training_facts, plan.machine);
  const CostModel inference_cost(inference_facts, plan.machine);
  const Chain chain = make_chain(training, cost);
  const Chain inference_chain = make_chain(inference, inference_cost);
  const SearchInput space{training, chain, cost, plan.machine, {}, plan.training.deterministic};
  XRUN_ASSIGN(plan.costs, head_costs({space, inference, inference_facts, inference_chain, inference_cost}, plan, head));
  plan.costs_of = training.graph.heads[static_cast<size_t>(head.head)].name;
  return {};
}

Status explain_idle_devices(Plan& plan, const Module& training, const Module& inference,
                            const KernelFacts& training_facts, const KernelFacts& inference_facts,
                            const FactsOf& facts_of) {
  const Machine& machine = plan.machine;
  const CostModel cost(training_facts, machine);
  const CostModel inference_cost(inference_facts, machine);
  const Chain chain = make_chain(training, cost);
  const Chain inference_chain = make_chain(inference, inference_cost);
  XRUN_ASSIGN(LayerHints hints, layer_hints(training, chain));
  const SearchInput space{training, chain, cost, machine, std::move(hints), plan.training.deterministic};
  XRUN_ASSIGN(const std::optional<SmallerBlock> block,
              propose_row_block(plan, {space, inference, inference_facts, inference_chain, inference_cost}, facts_of));
  for (Reason& reason : plan.why) {
    if (block && (reason.key == Reason::Key::kReplicas || reason.key == Reason::Key::kMicroBatches)) {
      reason.smaller_block = block;
    }
  }
  return {};
}

}  // namespace xrun::planner
