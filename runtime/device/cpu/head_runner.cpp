// Tests: tests/runtime/runs/active_plans_test.cpp, tests/runtime/runs/determinism_test.cpp
#include "runtime/device/cpu/head_runner.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "graph/base/check.h"
#include "ops/head/select_classes.h"
#include "runtime/device/mapped_rows.h"
#include "runtime/device/non_finite.h"

namespace xrun::runtime {

using planner::Buffer;
using planner::HeadPlan;
using planner::Instruction;
using planner::Kind;
using planner::Purpose;

namespace {

MappedRows* rows_file(const BoundHead& bound, const StepContext& step) {
  const auto head = static_cast<size_t>(bound.head);
  return head < step.rows.size() ? step.rows[head] : nullptr;
}

// Sorts the list of each row, which contains all classes with the best first, by class. Classes whose logit is NaN or
// minus infinity are not in the list, and get NaN.
void sort_by_class(const BestRows& best, int64_t rows) {
  std::vector<float> logits(static_cast<size_t>(best.k));
  for (int64_t r = 0; r < rows; ++r) {
    int32_t* const classes = best.classes + r * best.k;
    float* const scores = best.scores + r * best.k;
    std::ranges::fill(logits, NAN);
    for (int64_t i = 0; i < best.k; ++i) {
      if (classes[i] >= 0) {
        logits[static_cast<size_t>(classes[i])] = scores[i];
      }
    }
    std::copy(logits.begin(), logits.end(), scores);
    std::iota(classes, classes + best.k, 0);
  }
}

// The active classes of a shard.
std::span<const int32_t> rows_of(const ops::ActiveClasses& active, const ops::HeadPasses& passes) {
  const HeadShape& shape = passes.shape();
  return {active.classes, static_cast<size_t>(active.offsets[shape.blocks.of_rows(shape.shard).size()])};
}

}  // namespace

HeadRunner::HeadRunner(const Module& module, const planner::Program& program, const Binder& binder,
                       const HeadSet& heads, const ops::OptimizerForm& form)
    : module_(module), program_(program), binder_(binder), heads_(heads), form_(form) {}

Status HeadRunner::run(BoundHead& bound, const StepContext& step, double grad_scale, ops::Workers& workers) const {
  if (bound.kind == Kind::kHeadSelect) {
    select(bound, step, workers);
    return {};
  }
  if (bound.kind == Kind::kReduceStats) {
    return reduce(bound, step);
  }
  if (bound.kind == Kind::kReduceDx) {
    bound.join_of_dx->reduce_dx(bound.terms, bound.features.at(step), bound.rows, static_cast<float>(step.loss_scale),
                                bound.feature_gradient);
    return {};
  }
  if (bound.kind == Kind::kSumDx) {
    bound.join_of_dx->sum_dx(bound.terms, bound.rows, reinterpret_cast<float*>(bound.gradient), bound.gradient_step);
    return {};
  }
  return run_sweep(bound, step, grad_scale, workers);
}

Status HeadRunner::run_sweep(BoundHead& bound, const StepContext& step, double grad_scale,
                             ops::Workers& workers) const {
  const ops::ActiveClasses active =
      bound.selection == nullptr ? ops::ActiveClasses() : ops::selected_classes(bound.passes->shape(), bound.selection);
  const ops::HeadRows rows{.features = bound.features.at(step),
                           .labels = reinterpret_cast<const int32_t*>(bound.labels.at(step)),
                           .softmax = bound.softmax,
                           .factors = reinterpret_cast<const float*>(bound.factors.at(step)),
                           .logits = bound.logits,
                           .active = bound.selection == nullptr ? nullptr : &active};
  if (bound.weights.catch_up.last != nullptr) {
    prepare_catch_up(bound, step);
  }
  if (bound.updates) {
    XRUN_TRY(prepare_update(bound, active, step, grad_scale, workers));
  }
  switch (bound.kind) {
    case Kind::kHeadMass:
      if (step.measures_mass) {
        heads_.mass(bound.head, bound.shard).measure(rows, bound.weights, bound.mass, bound.scratch, workers);
      }
      break;
    case Kind::kHeadForward:
      bound.passes->forward(rows, bound.weights, bound.stats, bound.scratch, workers);
      break;
    case Kind::kHeadBackward:
      bound.passes->backward(rows, bound.weights, bound.gradient, bound.updates ? &bound.update : nullptr,
                             bound.scratch, workers);
      break;
    case Kind::kHeadNorms:
      bound.passes->gradient_norms(rows, bound.weights, bound.weight_squares, bound.bias_squares, bound.scratch,
                                   workers);
      break;
    default:
      bound.passes->update(rows, bound.weights, bound.update, bound.scratch, workers);
  }
  return {};
}

// Sets the data from which the class rows of a pass compute their current values (ops/head/catch_up.h).
void HeadRunner::prepare_catch_up(BoundHead& bound, const StepContext& step) const {
  const HeadPlan& head = program_.heads[static_cast<size_t>(bound.head)];
  ops::HeadCatchUp& by = bound.weights.catch_up;
  XRUN_CHECK(step.idle != nullptr, "rows catch up in a session that follows no rate");
  by.steps = step.idle;
  by.velocity = reinterpret_cast<const float*>(bound.update.weight_states[0]);
  by.bias_velocity = bound.update.bias_states[0];
  by.weight_factor = rule_of(module_.train, form_, module_.graph, head.weight).rate_factor;
  by.bias_factor = head.bias.valid() ? rule_of(module_.train, form_, module_.graph, head.bias).rate_factor : 1;
}

// Calls the guard for the class rows that a pass changes, and sets the scalars of their update.
Status HeadRunner::prepare_update(BoundHead& bound, const ops::ActiveClasses& active, const StepContext& step,
                                  double grad_scale, ops::Workers& workers) const {
  if (step.guard != nullptr && bound.selection != nullptr) {
    step.guard->before_rows(*bound.instruction, rows_of(active, *bound.passes), workers);
  }
  if (MappedRows* const file = rows_file(bound, step); file != nullptr) {
    XRUN_TRY(file->log_old(rows_of(active, *bound.passes)));
  }
  const HeadPlan& head = program_.heads[static_cast<size_t>(bound.head)];
  const Graph& graph = module_.graph;
  bound.update.seed = step.seed;
  bound.update.step = step.step;
  bound.update.weight =
      scalars_of(rule_of(module_.train, form_, graph, head.weight), form_, step.rate, step.updates(), grad_scale);
  if (head.bias.valid()) {
    bound.update.bias =
        scalars_of(rule_of(module_.train, form_, graph, head.bias), form_, step.rate, step.updates(), grad_scale);
  }
  return {};
}

// Selects the active classes of a shard. If their rows are in a file, requests these rows at once, in the order in
// which the passes of the step use them; all workers share the requests, since each request is a system call.
void HeadRunner::select(const BoundHead& bound, const StepContext& step, ops::Workers& workers) const {
  const auto* labels = reinterpret_cast<const int32_t*>(bound.labels.at(step));
  const ops::ActiveClasses active =
      ops::select_classes(bound.passes->shape(), {labels, static_cast<size_t>(bound.rows)}, module_.train.seed,
                          step.step, bound.selection, workers, bound.lists);
  if (const MappedRows* const file = rows_file(bound, step); file != nullptr) {
    constexpr int64_t kRows = 1024;
    const std::span<const int32_t> rows = rows_of(active, *bound.passes);
    workers.for_each((std::ssize(rows) + kRows - 1) / kRows, [&](int64_t item, int /*worker*/) {
      const std::span rest = rows.subspan(static_cast<size_t>(item * kRows));
      file->read_ahead(rest.first(std::min(rest.size(), static_cast<size_t>(kRows))));
    });
  }
}

Status HeadRunner::reduce(const BoundHead& bound, const StepContext& step) const {
  const ops::HeadJoin& join = heads_.join(bound.head);
  const auto* labels = reinterpret_cast<const int32_t*>(bound.labels.at(step));
  const auto* factors = reinterpret_cast<const float*>(bound.factors.at(step));
  join.combine_stats(bound.all_stats, labels, factors, bound.softmax, bound.loss, bound.hits,
                     bound.selection == nullptr ? 0 : ops::counts_of(bound.selection).all);
  for (const auto& [node, best] : bound.best) {
    join.top_k(bound.all_stats, best.k, best.classes, best.scores);
    if (module_.graph.node(node).attrs.flag("by_class", false)) {
      sort_by_class(best, bound.rows);
    }
  }
  return check_loss(bound, step);
}

Status HeadRunner::check_loss(const BoundHead& bound, const StepContext& step) const {
  if (bound.loss == nullptr || !program_.training) {
    return {};
  }
  const HeadPlan& head = program_.heads[static_cast<size_t>(bound.head)];
  for (int64_t row = 0; row < bound.rows; ++row) {
    if (!std::isfinite(bound.loss[row])) {
      const Node& node = module_.graph.node(head.node);
      return Error{ErrorKind::kNonFinite, "XG0810",
                   "the loss of `" + node.path + "` is not finite, for row " + std::to_string(row) + " of head pass " +
                       std::to_string(bound.head_pass) + " of step " + std::to_string(step.step + 1),
                   advice_about_loss(module_.train, step.step), node.span};
    }
  }
  return {};
}

void HeadRunner::prepare(const BoundMemory& memory, int device, ops::Workers& workers) const {
  for (size_t h = 0; h < program_.heads.size(); ++h) {
    const HeadPlan& head = program_.heads[h];
    std::map<int, ops::HeadWeights> shards;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.head != static_cast<int>(h) || !buffer.persistent || buffer.device != device) {
        continue;
      }
      std::byte* const data = memory.at(buffer);
      if (buffer.purpose == Purpose::kHeadPrepared) {
        shards[buffer.shard].prepared = reinterpret_cast<float*>(data);
      } else if (buffer.purpose == Purpose::kHeadScale) {
        shards[buffer.shard].scales = reinterpret_cast<float*>(data);
      } else if (buffer.purpose == Purpose::kHeadWeight && buffer.param == head.bias) {
        shards[buffer.shard].bias = reinterpret_cast<float*>(data);
      } else if (buffer.purpose == Purpose::kHeadWeight) {
        shards[buffer.shard].weight = data;
      }
    }
    for (const auto& [shard, weights] : shards) {
      heads_.passes(static_cast<int>(h), shard, head.rows).prepare(weights, workers);
    }
  }
}

}  // namespace xrun::runtime
