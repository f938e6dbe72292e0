// The settings of a file: training, data, machine, hints. Values have spans, so that the error for an infeasible plan
// can point at the line that requires it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/source.h"
#include "graph/settings/data_spec.h"
#include "graph/settings/schedule_spec.h"
#include "graph/settings/train_parts.h"

namespace xrun {

struct TrainSpec {
  std::string name;
  // Samples of an update: `batch` in the text times grad_accumulation; for a growing batch the last size.
  int64_t batch = 0;
  std::optional<GrowthSpec> growth;
  TrainSpan duration;
  std::vector<LossTerm> loss;  // the run minimises the sum of the terms; may be empty
  bool reduce_sum = false;
  std::vector<MetricSpec> metrics;
  CallSpec optimizer;
  std::vector<CurveSpec> lr;
  PrecisionMode precision = PrecisionMode::kF32;
  LossScaleSpec loss_scale;  // kNone unless `precision` is mixed(f16)
  std::vector<GroupSpec> groups;
  uint64_t seed = 1;
  bool deterministic = false;
  int64_t norm_rows = 64;
  int64_t grad_accumulation = 1;
  ClipSpec clip;
  double ema = 0;  // decay of the running mean of the weights in a step; 0: there is no mean
  std::vector<std::string> freeze;
  std::string init_checkpoint;  // path of the initial weights; empty: weights are initialised from the seed
  std::string directory;        // directory of the declaring file: a relative `init_checkpoint` starts here
  SampleOrder order = SampleOrder::kShuffled;
  ClassWeightsSpec class_weights;
  ActiveSpec active_classes;
  CompressSpec compress;
  std::string class_input;  // input with the labels for a balanced order and class weights; empty if neither is used
  std::optional<TrainSpan> eval_every;
  std::vector<MetricSpec> eval;
  TrainSpan log_every{10, TrainSpan::kSteps};
  bool log_tensorboard = false;
  std::string log_prometheus;  // ADDRESS:PORT at which Prometheus reads the run's metrics; empty: not served
  TrainSpan checkpoint_every{1, TrainSpan::kEpochs};
  int64_t checkpoint_keep = 3;
  std::string checkpoint_dir;
  bool checkpoint_async = false;
  Span span;
  Span batch_span;

  // The number of samples of one unit of progress: the samples of a step or, if the batch grows, of one of the first
  // steps.
  int64_t unit() const { return growth ? growth->first : batch; }
  // Sets another number of samples for an update; the first size of a growing batch stays the same fraction of it.
  // REQUIRES: `samples` is a multiple of accumulated().
  void resize(int64_t samples) {
    batch = samples;
    if (growth) {
      growth->first = samples / growth->times;
    }
  }
  // The derivative of the objective by the loss of a row, for a loss term with the factor 1.
  double row_weight() const { return reduce_sum ? 1.0 : 1.0 / static_cast<double>(batch); }
  // The derivative by the losses `rows`, with the factor of their term; 0 if no term has these losses.
  double row_weight(ValueId rows) const {
    for (const LossTerm& term : loss) {
      if (term.rows == rows) {
        return row_weight() * term.factor;
      }
    }
    return 0;
  }
  // The number of batches that a step accumulates; no micro-batch mixes their rows.
  int64_t accumulated() const { return growth ? growth->times : grad_accumulation; }
  // Whether a step sums the squares of all gradients before it updates weights: to clip by their norm, or to find out
  // whether a gradient is not finite because of the scale of the loss.
  bool sums_squares() const { return clip.kind == ClipSpec::kNorm || loss_scale.is_on(); }
  // Whether the updates of heads wait for these sums.
  bool heads_wait_for_sums() const { return (clip.kind == ClipSpec::kNorm && clip.heads) || loss_scale.is_on(); }
  // The input of the training graph with the weight of each row's class.
  std::string weight_input() const { return class_input + ".class_weight"; }
  // The metrics of an evaluation: `eval`, or `metrics` if there is no `eval`.
  const std::vector<MetricSpec>& measured() const { return eval.empty() ? metrics : eval; }
};

}  // namespace xrun
