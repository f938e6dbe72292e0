// Bounds of an elaboration: steps of evaluation, and the size of the graph.
#include <fmt/format.h>

#include "graph/base/units.h"
#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

constexpr int kMostErrors = 200;  // the evaluation stops after this many errors

std::string count_text(double count) {
  return count < 1e15 ? format_count(static_cast<int64_t>(count)) : fmt::format("{:.0e}", count);
}

}  // namespace

bool Evaluator::spend(Span at) {
  exhausted_ = exhausted_ || diagnostics_.error_count() >= kMostErrors;
  if (exhausted_) {
    return false;
  }
  return (++steps_ <= options_.max_steps && work_.size() <= options_.max_nodes) || refuse_growth(at);
}

bool Evaluator::refuse_at_bound(Diagnostic diagnostic) {
  exhausted_ = true;
  diagnostic.at_bound = true;
  report(std::move(diagnostic));
  return false;
}

bool Evaluator::refuse_growth(Span at) {
  return refuse_at_bound(
      fault("XG0216", at,
            {"this expands to more than {} operators, tensors and parameters, or {} steps of evaluation",
             options_.max_nodes, options_.max_steps},
            "the bound is reached here",
            {"look for a `repeat` count that is too large, or for blocks that call one another twice"}));
}

bool Evaluator::refuse_size(double nodes, double steps, std::string_view name, Span at) {
  const auto most = static_cast<double>(options_.max_nodes);
  const std::string found = nodes > most
                                ? fmt::format("{} operators, tensors and parameters or more: the limit is {}",
                                              count_text(nodes), count_text(most))
                                : fmt::format("{} steps of evaluation or more: the limit is {}", count_text(steps),
                                              count_text(static_cast<double>(options_.max_steps)));
  return refuse_at_bound(
      fault("XG0216", at, {"with `{}` this text expands to {}", name, found}, "this would pass the limit",
            {"look for a `repeat` count that is too large, or for blocks and functions that call others twice"}));
}

bool Evaluator::has_room_for(const DeclRef& ref, Span at, bool alone) {
  if (exhausted_) {
    return false;
  }
  const ExpansionSize least = sizes_->of(ref);
  const double nodes = (alone ? 0.0 : static_cast<double>(work_.size())) + least.nodes;
  const double steps = (alone ? 0.0 : static_cast<double>(steps_)) + least.steps;
  const bool fits =
      nodes <= static_cast<double>(options_.max_nodes) && steps <= static_cast<double>(options_.max_steps);
  return fits || refuse_size(nodes, steps, ref.decl->name ? ref.decl->name.text : keyword_of(ref.decl->kind), at);
}

}  // namespace xrun::lang
