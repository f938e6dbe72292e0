#include "planner/planner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>

#include "graph/base/random.h"
#include "planner/explain.h"
#include "planner/fit.h"
#include "planner/search.h"
#include "planner/verify_program.h"

namespace xrun::planner {
namespace {

// Of the forward pass. The placement of buffers takes seconds here, and grows with the square.
constexpr int kMostNodes = 32'768;

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

// Programs of candidates that fit, fastest first: the best few of each kind (stages and replicas), so that unlike plans
// are compared exactly. `smallest` is the least of those that do not fit.
Result<std::vector<Fitted>> fit_best(const FitInput& input, const std::vector<Candidate>& candidates,
                                     const MemoryLimits& limits, int wanted, Fitted& smallest) {
  constexpr int kOfEachKind = 2;
  std::vector<Fitted> fitted;
  std::map<std::pair<int, int>, int> tried;
  for (const Candidate& candidate : candidates) {
    if (static_cast<int>(fitted.size()) >= wanted) {
      break;
    }
    int& kind = tried[{candidate.setting.stages, candidate.setting.replicas}];
    if (kind >= kOfEachKind) {
      continue;
    }
    Fitted least;
    XRUN_ASSIGN(std::optional<Fitted> made, fit(input, candidate, limits, least));
    if (made) {
      ++kind;
      fitted.push_back(std::move(*made));
    } else if (smallest.memory.sum() == 0 || least.memory.sum() < smallest.memory.sum()) {
      smallest = std::move(least);
    }
  }
  // Of plans that a prediction cannot tell apart the simplest is best.
  const auto key = [](const Fitted& f) {
    const Setting& setting = f.candidate.setting;
    return std::tuple(std::llround(std::log(f.predicted.step) * 1e3), setting.stages, setting.micro_batches,
                      setting.replicas);
  };
  std::stable_sort(fitted.begin(), fitted.end(), [&](const Fitted& a, const Fitted& b) { return key(a) < key(b); });
  return fitted;
}

std::string digest_text(const Plan& plan, const Graph& training, const Graph& inference) {
  const uint64_t hash = stable_hash(print(plan.training, training) + print(plan.inference, inference) +
                                    plan.math_digest + plan.facts_digest + plan.machine.name);
  char text[16];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(hash ^ (hash >> 32)));
  return text;
}

std::string line_of(const std::string& change, const Fitted& fitted, const char* note) {
  char text[256];
  const std::string speed = format_count(std::llround(fitted.predicted.images_per_second));
  std::snprintf(text, sizeof text, "%-44s %10s  %8s images/s%s", change.c_str(),
                format_bytes(fitted.memory.sum()).c_str(), speed.c_str(), note);
  return text;
}

// The best plan of a changed module that fits, if one does.
Result<std::optional<Fitted>> best_of(const Module& module, const FitInput& input, const MemoryLimits& limits) {
  const SearchInput& base = input.search;
  XRUN_ASSIGN(LayerHints hints, layer_hints(module, base.chain));
  const SearchInput changed{module, base.chain, base.cost, base.machine, std::move(hints), base.deterministic};
  const FitInput again{changed, input.inference, input.inference_facts, input.inference_chain, input.inference_cost};
  XRUN_ASSIGN(const std::vector<Setting> settings,
              legal_settings(module, base.chain, base.machine, base.deterministic));
  XRUN_ASSIGN(const std::vector<Candidate> candidates, search(changed, settings));
  Fitted smallest;
  XRUN_ASSIGN(std::vector<Fitted> fitted, fit_best(again, candidates, limits, 1, smallest));
  return fitted.empty() ? std::optional<Fitted>() : std::optional(std::move(fitted[0]));
}

// Changes of the model text that fit: hints left out, then smaller batches, which change training.
Result<std::vector<std::string>> find_mends(const Module& training, const FitInput& input, const MemoryLimits& limits,
                                            int64_t batch_floor) {
  std::vector<std::string> mends;
  Module free = training;
  const auto limit = free.schedule.memory_limit;
  free.schedule = {};
  free.schedule.memory_limit = limit;
  XRUN_ASSIGN(const std::optional<Fitted> open, best_of(free, input, limits));
  if (open) {
    mends.push_back(line_of("without hints: " + to_text(open->candidate.setting), *open, ""));
  }
  const int64_t block = training.train.norm_rows;
  for (int64_t batch = training.train.batch; batch > batch_floor && mends.size() < 3;) {
    batch = std::max(batch_floor, batch / 2 / block * block);  // down to one row block, whatever the number divides by
    Module smaller = free;
    smaller.train.batch = batch;
    XRUN_ASSIGN(const std::optional<Fitted> fitted, best_of(smaller, input, limits));
    if (fitted) {
      mends.push_back(line_of("batch = " + std::to_string(batch), *fitted, "   changes training"));
      break;
    }
  }
  return mends;
}

}  // namespace

Result<Plan> make_plan(const Module& training, const Module& inference, const KernelFacts& training_facts,
                       const KernelFacts& inference_facts, const Machine& machine, const PlannerOptions& options) {
  const bool deterministic = options.deterministic || training.train.deterministic;
  XRUN_TRY(check_memory(training.cluster, machine));
  const CostModel cost(training_facts, machine);
  const CostModel inference_cost(inference_facts, machine);
  const Chain chain = make_chain(training, cost);
  if (chain.size() > kMostNodes) {
    return Error{ErrorKind::kContent, "XG0198",
                 "a plan of " + format_count(chain.size()) + " operators would take too long: at most " +
                     format_count(kMostNodes) + " go into one",
                 "fold repeated layers into fewer, larger ones", training.schedule.span};
  }
  const Chain inference_chain = make_chain(inference, inference_cost);
  XRUN_ASSIGN(LayerHints hints, layer_hints(training, chain));
  const SearchInput space{training, chain, cost, machine, std::move(hints), deterministic};
  const FitInput input{space, inference, inference_facts, inference_chain, inference_cost};

  XRUN_ASSIGN(const std::vector<Setting> settings, legal_settings(training, chain, machine, deterministic));
  XRUN_ASSIGN(const std::vector<Candidate> candidates, search(space, settings));
  if (candidates.empty()) {
    const Span span = training.schedule.pins.empty() ? training.schedule.span : training.schedule.pins[0].span;
    return Error{ErrorKind::kContent, "XG0608", "no cuts put every pinned layer on its stage",
                 "stages hold layers in the order in which the model has them, and none is empty", span};
  }
  const MemoryLimits limits = memory_limits(training, machine);
  Fitted smallest;
  XRUN_ASSIGN(std::vector<Fitted> fitted, fit_best(input, candidates, limits, options.emitted, smallest));
  if (fitted.empty()) {
    XRUN_ASSIGN(const std::vector<std::string> mends, find_mends(training, input, limits, training.train.norm_rows));
    return explain_misfit(space, smallest, limits, mends);
  }

  XRUN_TRY(verify_program(fitted[0].training, training, limits.total));
  XRUN_TRY(verify_program(fitted[0].inference, inference, limits.total));

  Plan plan{.model = training.model, .machine = machine};
  plan.predicted = fitted[0].predicted;
  plan.why = explain(space, fitted, candidates);
  plan.alternatives = list_alternatives(fitted);
  plan.training = std::move(fitted[0].training);
  plan.inference = std::move(fitted[0].inference);
  plan.sources = training.sources;
  plan.math_digest = training.math_digest;
  plan.facts_digest = training_facts.digest;
  plan.isa = training_facts.isa;
  plan.id = digest_text(plan, training.graph, inference.graph);
  return plan;
}

}  // namespace xrun::planner
