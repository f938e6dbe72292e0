#include "planner/cost/graph_builds.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace xrun::planner {
namespace {

// The fraction of a period that a build of a graph may take when a longer period is proposed.
constexpr double kLittle = 0.1;

// Returns the number of steps of the training run; 0 if it is unknown.
double steps_of(const Plan& plan, const TrainSpec& train) {
  const bool known = plan.samples > 0 || train.duration.unit != TrainSpan::kEpochs;
  return known ? std::ceil(train.duration.steps(plan.samples, train.batch)) : 0;
}

// Returns a value for `rebuild`, rounded to one digit, that is long enough for builds of `build` seconds: "2 epochs".
// Returns nullopt if the period would be as long as the run.
std::optional<TrainSpan> longer_rebuild(const Plan& plan, const TrainSpec& train, const GraphPeriod& period,
                                        Seconds build) {
  TrainSpan rebuild = train.active_classes.rebuild;
  rebuild.amount *= build / (kLittle * period.time);
  const double unit = std::pow(10, std::floor(std::log10(rebuild.amount)));
  rebuild.amount = std::ceil(rebuild.amount / unit) * unit;
  const double total = steps_of(plan, train);
  const bool used = total == 0 || rebuild.steps(plan.samples, train.batch) * (1 + kLittle) < total;
  return used ? std::optional(rebuild) : std::nullopt;
}

// Returns the shape of a build with the number of workers of the rank that has the fewest workers, since the other
// ranks wait for that rank to finish its share.
KnnCellsShape share_of_rank(const Program& program, const HeadPlan& head) {
  KnnCellsShape shape = knn_cells_shape(program, head);
  for (int rank = 0; rank < program.ranks; ++rank) {
    shape.graph.workers = std::min(shape.graph.workers, workers_of_rank(program, rank));
  }
  return shape;
}

std::string ways_out(const Plan& plan, const TrainSpec& train, const GraphPeriod& period) {
  Seconds approximate = 0;
  for (const GraphBuild& one : plan.graphs) {
    approximate += one.approximate;
  }
  const Seconds build = build_time(plan);
  const auto longer = longer_rebuild(plan, train, period, build);
  const std::string rebuild = longer ? "rebuild=" + to_text(*longer) : "";
  if (!train.active_classes.exact || approximate > build / 2) {
    return longer ? "write " + rebuild : "write active_classes = sample(10%), which needs no graph";
  }
  std::string text = "write exact=false, which takes about " + format_seconds(approximate);
  if (const auto also = approximate > period.time ? longer_rebuild(plan, train, period, approximate) : std::nullopt) {
    text += " and goes with rebuild=" + to_text(*also);
  }
  return longer ? text + ", or " + rebuild : text;
}

}  // namespace

std::vector<GraphBuild> graph_builds(const Program& program, const CostModel& cost) {
  std::vector<GraphBuild> builds;
  for (const HeadPlan& head : program.heads) {
    if (program.training && head.neighbours > 0) {
      const KnnCellsShape shape = share_of_rank(program, head);
      builds.push_back({.head = head.head,
                        .is_exact = head.exact_graph,
                        .exact = cost.exact_graph(shape.graph, program.ranks),
                        .approximate = cost.approximate_graph(shape, program.ranks)});
    }
  }
  return builds;
}

Seconds build_time(const Plan& plan) {
  Seconds sum = 0;
  for (const GraphBuild& build : plan.graphs) {
    sum += build.time();
  }
  return sum;
}

std::optional<GraphPeriod> graph_period(const Plan& plan, const Module& module) {
  const TrainSpec& train = module.train;
  const TrainSpan& rebuild = train.active_classes.rebuild;
  if (plan.graphs.empty() || (rebuild.unit == TrainSpan::kEpochs && plan.samples == 0)) {
    return std::nullopt;
  }
  GraphPeriod period{.steps = std::max(1.0, rebuild.steps(plan.samples, train.batch))};
  period.time = period.steps * plan.predicted.step;
  period.added = build_time(plan) / period.steps;
  if (const double total = steps_of(plan, train); total > 0) {
    // The first graph is built at the start if the initial weights are loaded from a checkpoint, else after a period.
    const bool at_start = !train.init_checkpoint.empty();
    period.builds = static_cast<int64_t>(std::ceil(total / period.steps)) - (at_start ? 0 : 1);
    period.added = static_cast<double>(period.builds) * build_time(plan) / total;
  }
  return period;
}

std::optional<Diagnostic> slow_graphs(const Plan& plan, const Module& module) {
  const auto period = graph_period(plan, module);
  const Seconds build = build_time(plan);
  constexpr Seconds kNoticed = 1;
  if (!period || build <= period->time || static_cast<double>(period->builds) * build < kNoticed) {
    return std::nullopt;
  }
  const TrainSpec& train = module.train;
  const GraphBuild& largest = std::ranges::max(plan.graphs, {}, &GraphBuild::time);
  Diagnostic warning{.severity = Severity::kWarning,
                     .code = "XG0819",
                     .message = fmt::format(
                         "a graph of the nearest classes of `{}` takes about {} to build, and the steps of `rebuild` "
                         "({}) take {}",
                         module.graph.heads[static_cast<size_t>(largest.head)].name, format_seconds(build),
                         to_text(train.active_classes.rebuild), format_seconds(period->time)),
                     .primary = {train.active_classes.span, "steps wait for graphs"}};
  const double factor = 1 + period->added / plan.predicted.step;
  warning.note(fmt::format("the run takes about {} as long as without graphs",
                           factor < 9.5 ? fmt::format("{:.1f} times", factor) : fmt::format("{:.0f} times", factor)));
  warning.fixes.push_back({.title = ways_out(plan, train, *period), .edits = {}, .lines = {}});
  return warning;
}

}  // namespace xrun::planner
