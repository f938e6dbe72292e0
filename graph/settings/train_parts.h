// Parts of the settings of `train`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/id.h"
#include "graph/base/source.h"
#include "graph/settings/head_def.h"
#include "graph/settings/precision_spec.h"

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

struct CurveSpec {
  std::string kind;  // "warmup", "constant", "cosine", "poly" or "steps"
  double from = 0;
  double to = 0;
  std::optional<TrainSpan> span;  // length of the curve; nullopt: the rest of the run
  double power = 1;
  std::vector<TrainSpan> at;
  double by = 0.1;
  Span source;
};

struct GroupSpec {
  std::string path;  // the group consists of the tensors at and below this path
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
  TrainSpan rebuild;              // kKnn: time from one graph of nearest classes to the next
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
  std::string path;       // kCsv: path of the file with the weights
  std::string directory;  // directory in which a relative `path` starts
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
  ValueId rows;  // f32[N], one value for each row
  double factor = 1;
};

}  // namespace xrun
