// The settings of a file: training, data, machine, hints. Values have spans, so that the error for an infeasible plan
// can point at the line that asks for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/id.h"
#include "graph/base/source.h"
#include "graph/base/units.h"
#include "graph/settings/head_def.h"
#include "graph/types/attr.h"

namespace xrun {

struct ValueTag;
using ValueId = Id<ValueTag>;

// A length of training in its own unit; epochs become steps when the number of samples is known.
struct TrainSpan {
  enum Unit { kSteps, kEpochs, kSamples };
  double amount = 0;
  Unit unit = kSteps;
  // The number of steps, not rounded, for `samples` training samples and a global batch of `batch`.
  double steps(int64_t samples, int64_t batch) const;
};
std::string to_text(const TrainSpan& span);  // "20 epochs"

// A call by name with constant arguments: a reader, an augmentation, an optimizer, a metric.
struct CallSpec {
  std::string name;
  Attrs args;
  Span span;
};

struct SourceSpec {
  std::string name;
  CallSpec reader;
  std::string directory;  // directory of the declaring file: relative paths in `reader` start here
  Span span;
};

// `target = field -> stages`: fills an input of the model, or the label, from a field of every source.
struct DataBinding {
  std::string target;
  std::string field;
  std::vector<CallSpec> stages;
  Span span;
};

// The place in the text that sets the number of classes of an input's labels.
struct ClassCount {
  std::string input;
  Span span;
};

// `classes { moved cat -> zebra }`: a class has another name in the data than in earlier checkpoints.
struct MovedClass {
  std::string from;
  std::string to;
  std::string input;  // `classes label { ... }`; empty: every input
  Span span;
};

struct DataSpec {
  std::string name;
  std::vector<SourceSpec> sources;
  std::vector<DataBinding> bindings;
  std::vector<ClassCount> class_counts;
  std::vector<MovedClass> moved_classes;
  double max_bad = 0.001;
  Span span;
};

enum class PrecisionMode { kF32, kMixedBf16 };

struct CurveSpec {
  std::string kind;  // warmup constant cosine poly steps
  double from = 0;
  double to = 0;
  std::optional<TrainSpan> span;  // nullopt: the rest of the run
  double power = 1;
  std::vector<TrainSpan> at;
  double by = 0.1;
  Span source;
};

struct GroupSpec {
  std::string path;  // tensor prefix
  std::optional<double> lr;
  std::optional<double> weight_decay;
  // These settings are only for the class weights of a head: the format of the weights, the format of optimizer states,
  // the rule for rows that a step does not use, and the place of rows.
  std::optional<RowFormat> weights;
  std::optional<RowFormat> states;
  std::optional<Untouched> untouched;
  std::optional<RowPlace> rows;
  Span span;
};

// Selects the classes that take part in a step of a sharded head in addition to the classes of the batch's labels.
struct ActiveSpec {
  enum Kind { kAll, kSample, kKnn };
  Kind kind = kAll;
  double amount = 1;              // up to 1: a fraction of the classes; above: a number of classes
  int64_t neighbours = 0;         // kKnn: entries of a class's list
  TrainSpan rebuild;              // kKnn: time from one graph to the next
  bool exact = true;              // kKnn: the graph has the exact nearest classes; false: approximate ones
  int64_t probes = kUsualProbes;  // kKnn without exact: KnnCellsShape::probes
  bool log_q = false;             // logits are corrected by the sampling probability of their class
  Span span;

  // The number of active classes out of `classes`; all of them if nothing is selected.
  int64_t of(int64_t classes) const;
};

// A metric such as accuracy(logits, label, k, source). It has a value in the graph, with one number for each row: 1 if
// the prediction is right, else 0.
struct MetricSpec {
  std::string name;  // key in `eval`, or the operator's name in `metrics`
  ValueId value;     // f32[N] per-row result of the metric operator; of recall_at [N, D + 2] (ops/losses/recall_op.cpp)
  std::string source;      // empty: every source but `train`
  int64_t neighbours = 0;  // k of recall_at, which evaluations compute once they have all samples; 0: another metric
  Span span;

  bool reads(std::string_view other) const { return source.empty() ? other != "train" : source == other; }
};

struct ClipSpec {
  enum Kind { kNone, kNorm, kValue };
  Kind kind = kNone;
  double limit = 0;
  bool heads = false;
};

// Compression of gradients. A sender is a replica or a node. Of each tensor, a sender sends the elements with the
// largest accumulated gradients, and keeps the remaining elements for later steps (graph/layouts/compression.h).
struct CompressSpec {
  double density = 0;               // fraction of the elements that is sent; 0: gradients are sent whole
  std::vector<std::string> on;      // tensors below these paths; empty: all outside of heads
  std::optional<TrainSpan> warmup;  // time in which the density falls to `density`
  bool per_node = false;            // the replicas of a node first sum their gradients, and the sum is compressed
  Span span;

  bool is_on() const { return density > 0; }
};

enum class SampleOrder { kShuffled, kSequential, kBalanced };
constexpr std::string_view name_of(SampleOrder order) {
  return order == SampleOrder::kShuffled ? "shuffled" : order == SampleOrder::kSequential ? "sequential" : "balanced";
}

// The weights of samples in the loss, by class. Their mean over the training samples is 1.
struct ClassWeightsSpec {
  enum Kind { kNone, kInverseFrequency, kCsv };
  Kind kind = kNone;
  std::string path;       // path of kCsv
  std::string directory;  // a relative path starts here
  Span span;
};

// `batch = grow(256 .. 2048, after=1 epoch, over=2 epochs)`: a step takes one batch of the first size, later two,
// three, ... of them, along half a cosine (graph/settings/step_sizes.h).
struct GrowthSpec {
  int64_t first = 0;  // samples of a step at first
  int64_t times = 1;  // the last size divided by the first
  TrainSpan after;    // time with steps of the first size before the growth begins; in epochs or samples, as `over`
  TrainSpan over;     // duration of the growth
  Span span;
};

// A part of the loss: `factor` times the mean over the rows, or times their sum with `reduce = sum`.
struct LossTerm {
  ValueId rows;  // f32[N], one value a row
  double factor = 1;
};

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
  // REQUIRES: a multiple of `accumulated`.
  void resize(int64_t samples) {
    batch = samples;
    if (growth) {
      growth->first = samples / growth->times;
    }
  }
  // The derivative of the objective by the value of a row, for a term with the factor 1.
  double row_weight() const { return reduce_sum ? 1.0 : 1.0 / static_cast<double>(batch); }
  // The derivative by these rows, with the factor of their term; 0 if no term has these rows.
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
  // The input of the training graph with the weight of each row's class.
  std::string weight_input() const { return class_input + ".class_weight"; }
  // The metrics of an evaluation: `eval`, or `metrics` if there is no `eval`.
  const std::vector<MetricSpec>& measured() const { return eval.empty() ? metrics : eval; }
};

// The network between the nodes of a cluster. Each node has one link, which sends and receives at the same time.
struct NetworkSpec {
  std::string name;     // "ethernet"; empty: unknown
  double rate = 0;      // bytes a second in each direction
  Seconds latency = 0;  // time of a message without its bytes
  bool known() const { return rate > 0; }
  bool operator==(const NetworkSpec&) const = default;
};

struct ClusterSpec {
  std::string name;
  std::string cpu;  // name for reports; empty: "cpu"
  int64_t nodes = 1;
  NetworkSpec network;
  int64_t cores = 0;   // per node; 0: detect
  Bytes memory = 0;    // per node; 0: detect
  Bytes reserve = -1;  // per node; -1: default
  double storage = 0;  // bytes a second that a node reads or writes in files; 0: unknown
  Span span;
};

// A hint and its place in the text.
template <typename T>
struct Hint {
  T value{};
  Span span{};
};

enum class PipelineKind { kGpipe, kOneFOneB };

struct RecomputeHint {
  enum Mode { kNone, kAll, kPaths };
  Mode mode = kNone;
  std::vector<std::string> paths;
};

struct ShardHint {
  std::string head;
  int64_t shards = 0;       // K shards, shard r on device r mod devices; 0: all devices
  bool by_node = false;     // instead of `shards`: one on the first device of each node
  std::string granularity;  // auto micro_batch step
  Span span;
};

struct PinHint {
  std::string path;
  int64_t stage = 0;
  Span span;
};

// The settings of `schedule`. An absent hint means `auto`.
struct ScheduleSpec {
  std::string name;
  std::optional<Hint<int64_t>> stages;
  std::optional<Hint<int64_t>> micro_batches;
  std::optional<Hint<PipelineKind>> pipeline;
  std::optional<Hint<int64_t>> replicas;
  std::optional<Hint<RecomputeHint>> recompute;
  std::optional<Hint<bool>> overlap;
  std::optional<Hint<Bytes>> memory_limit;
  Bytes bucket = Bytes{25} << 20;  // bytes of gradients that replicas reduce in one call, at least 1
  std::vector<ShardHint> shards;
  std::vector<PinHint> pins;
  Span span;
};

}  // namespace xrun
