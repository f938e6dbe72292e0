#include "planner/search/row_blocks.h"

#include <algorithm>

#include "planner/search/layer_hints.h"

namespace xrun::planner {
namespace {

// The minimum number of rows of a proposed row block for a model with a batch norm, since mean and variance of fewer
// samples are too noisy.
constexpr int64_t kLeastRowsOfStatistics = 8;

// Sets the times in `facts` to those of `base`, measured or given by the user, multiplied by `rows`, the ratio of the
// row counts. All other facts were collected for the new number of rows and are exact.
void scale_times(KernelFacts& facts, const KernelFacts& base, double rows) {
  if (facts.nodes.size() != base.nodes.size()) {
    return;
  }
  for (size_t i = 0; i < facts.nodes.size(); ++i) {
    if (const auto& time = base.nodes[i].time) {
      facts.nodes[i].time = *time * rows;
    }
  }
  facts.head_seconds_per_mac = base.measured ? base.head_seconds_per_mac : facts.head_seconds_per_mac;
}

}  // namespace

OtherRows::OtherRows(const FitInput& base, int64_t norm_rows)
    : base_(base), training_(base.search.module), inference_(base.inference) {
  training_.train.norm_rows = norm_rows;
  inference_.train.norm_rows = norm_rows;
}

Result<std::unique_ptr<OtherRows>> OtherRows::make(const FitInput& base, const FactsOf& facts_of, int64_t norm_rows) {
  std::unique_ptr<OtherRows> made(new OtherRows(base, norm_rows));
  const SearchInput& search = base.search;
  const double rows = static_cast<double>(norm_rows) / static_cast<double>(search.module.train.norm_rows);
  XRUN_ASSIGN(made->facts_, facts_of(made->training_, true));
  XRUN_ASSIGN(made->inference_facts_, facts_of(made->inference_, false));
  scale_times(made->facts_, search.cost.facts(), rows);
  scale_times(made->inference_facts_, base.inference_facts, rows);
  made->cost_.emplace(made->facts_, search.machine);
  made->inference_cost_.emplace(made->inference_facts_, search.machine);
  made->chain_ = make_chain(made->training_, *made->cost_);
  made->inference_chain_ = make_chain(made->inference_, *made->inference_cost_);
  return made;
}

Result<Choice> OtherRows::choose_plan(int64_t batch, const MemoryLimits& limits, const Effort& effort) const {
  Module module = training_;
  module.train.resize(batch);
  const SearchInput& base = base_.search;
  XRUN_ASSIGN(LayerHints hints, layer_hints(module, chain_));
  const SearchInput space{module, chain_, *cost_, base.machine, std::move(hints), base.deterministic};
  FitInput input{space, inference_, inference_facts_, inference_chain_, *inference_cost_};
  input.realised = base_.realised;
  XRUN_ASSIGN(const std::vector<Setting> settings, legal_settings(module, chain_, base.machine, base.deterministic));
  XRUN_ASSIGN(const std::vector<Candidate> candidates, search(space, settings));
  return choose(input, candidates, limits, effort);
}

bool has_coupled_rows(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) {
    return node.op->rows == RowProperty::kRowCoupled && node.phase == Phase::kForward;
  });
}

std::vector<int64_t> smaller_row_blocks(const TrainSpec& train, bool coupled) {
  std::vector<int64_t> blocks;
  for (const int64_t rows : divisors(train.batch / train.accumulated())) {
    if (rows < train.norm_rows && (!coupled || rows >= kLeastRowsOfStatistics)) {
      blocks.insert(blocks.begin(), rows);
    }
  }
  return blocks;
}

}  // namespace xrun::planner
