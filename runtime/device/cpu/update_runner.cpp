// Tests: tests/runtime/runs/update_test.cpp, tests/runtime/runs/own_updates_test.cpp
#include "runtime/device/cpu/update_runner.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "graph/base/check.h"
#include "graph/layouts/norm_layout.h"
#include "graph/layouts/row_updates.h"
#include "graph/settings/known_update.h"
#include "ops/optimizer/compression.h"
#include "runtime/device/cpu/fold.h"

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::Operand;
using planner::Role;

// The number of elements that a worker takes at a time: their weights, gradients and two states fit into the
// second-level cache. It is a multiple of kNormChunk. Sums for the norms of tensors are computed per chunk, so another
// value would change their bits.
constexpr int64_t kChunk = 16 * kNormChunk;

ops::UpdateStates states_at(const BoundWeight& weight, int64_t begin) {
  ops::UpdateStates states = weight.states;
  for (float*& state : states) {
    state = state == nullptr ? nullptr : state + begin;
  }
  return states;
}

int64_t chunks_of(const BoundWeight& weight) { return (weight.count + kChunk - 1) / kChunk; }

// Calls body(weight, begin, end) for chunks of all weights.
template <typename Weights, typename Body>
void for_chunks(Weights& weights, ops::Workers& workers, const Body& body) {
  int64_t chunks = 0;
  for (const BoundWeight& weight : weights) {
    chunks += chunks_of(weight);
  }
  const auto one = [&](int64_t item, int worker) {
    for (auto& weight : weights) {
      const int64_t own = chunks_of(weight);
      if (item < own) {
        body(weight, item * kChunk, std::min(weight.count, (item + 1) * kChunk), worker);
        return;
      }
      item -= own;
    }
  };
  workers.for_each(chunks, one);
}

}  // namespace

UpdateRunner::UpdateRunner(const Module& module, const planner::Program& program, const Binder& binder,
                           const KernelSet& kernels, ops::Isa isa, const ops::OptimizerForm& form)
    : module_(module),
      program_(program),
      binder_(binder),
      kernels_(kernels),
      isa_(isa),
      form_(form),
      by_row_(params_updated_by_row(module.graph)),
      trust_(known_update(module.train.optimizer).trust) {}

BoundUpdate UpdateRunner::bind(const Instruction& instruction) const {
  BoundUpdate update;
  for (const Operand& operand : instruction.operands) {
    bind_operand(operand, update);
  }
  for (BoundWeight& weight : update.weights) {
    if (weight.pairs != nullptr) {
      weight.squares.resize(trust_ > 0 ? static_cast<size_t>(chunks_of(weight)) : 0);
    } else if (instruction.kind == planner::Kind::kUpdate && weight.rule.decays) {
      weight.tensor_norms.resize(static_cast<size_t>(ops::norms_of(form_)));
      weight.squares.resize(static_cast<size_t>(chunks_of(weight)) * weight.tensor_norms.size());
    }
  }
  return update;
}

// Binds an operand. In the list of operands, the operands of a weight follow the weight's gradient.
void UpdateRunner::bind_operand(const Operand& operand, BoundUpdate& update) const {
  const Graph& graph = module_.graph;
  switch (operand.role) {
    case Role::kGradient: {
      BoundWeight weight{.param = operand.param, .rule = rule_of(module_.train, form_, graph, operand.param)};
      const TensorType& type = graph.value(graph.param(operand.param).value).type;
      weight.count = type.elements(0, 0);
      weight.row = std::ranges::binary_search(by_row_, operand.param) ? weight.count / type.dims[0] : 0;
      for (int64_t partial = 0; partial < program_.partials_of_replica(); ++partial) {
        weight.partials.push_back(reinterpret_cast<float*>(binder_.at(operand) + operand.step * partial));
      }
      update.weights.push_back(std::move(weight));
      break;
    }
    case Role::kWeight:
      update.weights.back().weight = binder_.at<float>(operand);
      break;
    case Role::kState:
      update.weights.back().states[static_cast<size_t>(operand.index)] = binder_.at<float>(operand);
      break;
    case Role::kPairs:
      update.weights.back().pairs = binder_.at<const GradientPair>(operand);
      update.weights.back().stride = operand.bytes / program_.senders() / static_cast<Bytes>(sizeof(GradientPair));
      break;
    case Role::kNorms:
      if (operand.param.valid()) {
        update.weights.back().norms = binder_.at<double>(operand);
      }
      break;
    case Role::kRunningState:
      fold_of(operand.node, update).inputs[static_cast<size_t>(operand.index)] = {binder_.at(operand)};
      break;
    case Role::kStatistics:
      fold_of(operand.node, update).outputs[static_cast<size_t>(operand.index)] = {binder_.at(operand)};
      break;
    case Role::kPrepared: {
      const auto weight = std::find_if(update.weights.begin(), update.weights.end(),
                                       [&](const BoundWeight& one) { return one.param == operand.param; });
      XRUN_CHECK(weight != update.weights.end(), "a prepared weight without its plain form");
      update.prepares.push_back({kernels_.of(operand.node),
                                 operand.index,
                                 {reinterpret_cast<std::byte*>(weight->weight)},
                                 binder_.at(operand)});
      break;
    }
    case Role::kScratch:
      update.scratch = binder_.at(operand);
      update.slice = operand.step;
      break;
    default:
      XRUN_CHECK(false, std::string("an update has no use for ") + name_of(operand.role));
  }
}

std::vector<BoundSum> UpdateRunner::bind_sums(const Instruction& instruction) const {
  std::vector<BoundSum> sums;
  std::vector<int> places;  // replicas or reading nodes that the terms of the last sum come from, ascending
  for (const Operand& operand : instruction.operands) {
    const bool own = operand.role == Role::kSum;
    if (own) {
      sums.push_back({{}, binder_.at<float>(operand), operand.bytes / static_cast<Bytes>(sizeof(float))});
      places.clear();
    }
    const int place = own && operand.index < 0 ? instruction.replica : operand.index;
    const auto at = std::ranges::lower_bound(places, place) - places.begin();
    places.insert(places.begin() + at, place);
    sums.back().terms.insert(sums.back().terms.begin() + at, binder_.at<float>(operand));
  }
  return sums;
}

void UpdateRunner::sum(const std::vector<BoundSum>& sums, ops::Workers& workers) const {
  for (const BoundSum& sum : sums) {
    const auto one = [&](int64_t chunk, int) {
      const int64_t begin = chunk * kChunk;
      const int64_t count = std::min(kChunk, sum.count - begin);
      float* terms[planner::kMostReplicas];
      std::transform(sum.terms.begin(), sum.terms.end(), terms, [&](float* term) { return term + begin; });
      fold_tree(std::span(terms, sum.terms.size()), count);
      if (terms[0] != sum.own + begin) {
        std::copy_n(terms[0], count, sum.own + begin);
      }
    };
    workers.for_each((sum.count + kChunk - 1) / kChunk, one);
  }
}

BoundFold& UpdateRunner::fold_of(NodeId id, BoundUpdate& update) const {
  if (update.folds.empty() || update.folds.back().node != id) {
    const Node& node = module_.graph.node(id);
    update.folds.push_back({id, kernels_.of(id), std::vector<ops::TensorView>(node.inputs.size()),
                            std::vector<ops::TensorView>(node.outputs.size())});
  }
  return update.folds.back();
}

void UpdateRunner::fold_partials(const BoundUpdate& update, ops::Workers& workers) const {
  for_chunks(update.weights, workers, [](const BoundWeight& weight, int64_t begin, int64_t end, int) {
    float* terms[planner::kMostPartials];
    XRUN_CHECK(weight.partials.size() <= std::size(terms), "more partials than a replica has");
    for (size_t partial = 0; partial < weight.partials.size(); ++partial) {
      terms[partial] = weight.partials[partial] + begin;
    }
    fold_tree(std::span(terms, weight.partials.size()), end - begin);
  });
}

void UpdateRunner::add_squares(const BoundUpdate& update, ops::Workers& workers) const {
  for_chunks(update.weights, workers, [this](const BoundWeight& weight, int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; at += kNormChunk) {
      weight.norms[at / kNormChunk] =
          ops::sum_of_squares(isa_, weight.partials[0] + at, std::min(kNormChunk, end - at));
    }
  });
}

// Computes the norms of tensors. The replicas of a stage have equal weights and gradients, so each replica computes the
// norms from its own copy.
void UpdateRunner::find_norms(BoundUpdate& update, const StepContext& step, double grad_scale,
                              ops::Workers& workers) const {
  const auto norms = static_cast<size_t>(ops::norms_of(form_));
  for (int level = 0; level < ops::norm_levels_of(form_); ++level) {
    for_chunks(update.weights, workers, [&](BoundWeight& weight, int64_t begin, int64_t end, int) {
      if (!weight.tensor_norms.empty()) {
        const std::span<double> sums =
            std::span(weight.squares).subspan(static_cast<size_t>(begin / kChunk) * norms, norms);
        ops::norm_squares(isa_, form_, level, scalars_of(weight, step, grad_scale), weight.weight + begin,
                          weight.partials[0] + begin, states_at(weight, begin), end - begin, sums);
      }
    });
    for (BoundWeight& weight : update.weights) {
      for (size_t norm = 0; norm < weight.tensor_norms.size(); ++norm) {
        double sum = 0;
        for (size_t at = norm; at < weight.squares.size(); at += norms) {
          sum += weight.squares[at];
        }
        weight.tensor_norms[norm] = std::sqrt(sum);
      }
    }
  }
}

// Computes the scalars of an update. REQUIRES: the norms of the tensor are known.
ops::UpdateScalars UpdateRunner::scalars_of(const BoundWeight& weight, const StepContext& step,
                                            double grad_scale) const {
  ops::UpdateScalars scalars = runtime::scalars_of(weight.rule, form_, step.rate, step.updates(), grad_scale);
  if (!weight.tensor_norms.empty()) {
    ops::set_norms(form_, weight.tensor_norms, scalars);
  }
  return scalars;
}

// Returns the rate for the sum of a weight's pairs: that of the step, times the trust ratio of this sum if the
// optimizer has one. Decay and momentum are parts of the sum. REQUIRES: weight.squares are those of this step.
float UpdateRunner::rate_of_pairs(const BoundWeight& weight, const StepContext& step) const {
  const float rate = runtime::scalars_of(weight.rule, form_, step.rate, step.updates(), 1).rate;
  if (weight.squares.empty()) {
    return rate;
  }
  double squares = 0;
  for (const double sum : weight.squares) {
    squares += sum;
  }
  const double sent = ops::squares_of_pairs(weight.pairs, pairs_of(weight.count, step.density), weight.stride,
                                            program_.senders(), weight.partials[0]);
  return static_cast<float>(static_cast<double>(rate) * ops::trust_ratio(trust_, std::sqrt(squares), std::sqrt(sent)));
}

// Updates weights with compressed gradients. This is a plain subtraction, because the momentum was added before the
// gradients were selected. Every replica has the pairs of all senders, so all compute the same trust ratio.
void UpdateRunner::subtract_pairs(BoundUpdate& update, const StepContext& step, ops::Workers& workers) const {
  for_chunks(update.weights, workers, [this](BoundWeight& weight, int64_t begin, int64_t end, int) {
    if (weight.pairs != nullptr && !weight.squares.empty()) {
      weight.squares[static_cast<size_t>(begin / kChunk)] =
          ops::sum_of_squares(isa_, weight.weight + begin, end - begin);
    }
  });
  const auto one = [&](int64_t item, int) {
    const BoundWeight& weight = update.weights[static_cast<size_t>(item)];
    if (weight.pairs != nullptr) {
      ops::subtract_pairs(weight.pairs, pairs_of(weight.count, step.density), weight.stride, program_.senders(),
                          rate_of_pairs(weight, step), weight.partials[0], weight.weight);
    }
  };
  workers.for_each(std::ssize(update.weights), one);
}

Status UpdateRunner::apply(BoundUpdate& update, const StepContext& step, double grad_scale,
                           ops::Workers& workers) const {
  find_norms(update, step, grad_scale, workers);
  for_chunks(update.weights, workers, [&](const BoundWeight& weight, int64_t begin, int64_t end, int) {
    if (weight.pairs != nullptr) {
      return;
    }
    const ops::UpdateScalars scalars = scalars_of(weight, step, grad_scale);
    if (weight.row > 0) {
      ops::update_rows(isa_, form_, scalars, weight.weight, weight.partials[0], weight.states, weight.row, begin, end);
    } else {
      ops::update(isa_, form_, scalars, weight.weight + begin, weight.partials[0] + begin, states_at(weight, begin),
                  end - begin);
    }
  });
  subtract_pairs(update, step, workers);
  XRUN_TRY(prepare(update, workers));
  for (const BoundFold& fold : update.folds) {
    XRUN_TRY(fold.kernel->fold_states(fold.inputs, fold.outputs, program_.batch / program_.norm_rows));
  }
  return {};
}

Status UpdateRunner::prepare(const BoundUpdate& update, ops::Workers& workers) const {
  Status first;
  std::mutex mutex;
  const auto one = [&](int64_t item, int worker) {
    const BoundPrepare& prepare = update.prepares[static_cast<size_t>(item)];
    Status status =
        prepare.kernel->prepare(prepare.input, prepare.plain, prepare.prepared, update.scratch + update.slice * worker);
    if (!status.ok()) {
      const std::lock_guard lock(mutex);
      first = std::move(status);
    }
  };
  workers.for_each(static_cast<int64_t>(update.prepares.size()), one);
  return first;
}

}  // namespace xrun::runtime
