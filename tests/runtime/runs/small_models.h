// Small models of real operators for tests of the runtime, with data that is a function of the row number.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/random.h"
#include "graph/module.h"
#include "graph/passes/pipeline.h"
#include "ops/op.h"
#include "runtime/train/session/batch_source.h"
#include "tests/support/optimizers.h"

namespace xrun::runtime::testing {

struct ModelOptions {
  int layers = 3;  // linear -> bn -> relu, with a skip connection if `skips` is set
  int64_t input = 12;
  int64_t image = 0;  // above 0: convolutions over square pictures of this side, three channels; `input` = 3 · image²
  int64_t width = 24;
  int64_t classes = 10;
  bool head = false;    // a sharded head; false: dense logits
  bool cosine = false;  // cosine head with cosface, else classifier with softmax_ce
  bool norm = true;
  bool skips = false;
  double dropout = 0;  // after each layer
  PrecisionMode precision = PrecisionMode::kF32;
  LossScaleSpec loss_scale{.kind = LossScaleSpec::kDynamic};  // used only with kMixedF16
  int64_t batch = 48;
  int64_t norm_rows = 4;
  std::string optimizer = "sgd";
  Attrs arguments{{"momentum", 0.9}, {"weight_decay", 1e-3}};
  double rate = 0.1;
  int64_t steps = 30;
  ClipSpec clip;
  ActiveSpec active;
  bool weighted = false;                // each row counts with the weight of its class
  RowFormat weights = RowFormat::kF32;  // format of class weights
  RowFormat states = RowFormat::kF32;
  Untouched untouched = Untouched::kAsIs;
  RowPlace rows = RowPlace::kMemory;
};

// Returns the weight of a class in models with weighted rows.
inline float test_weight(int64_t label) { return 0.25F * static_cast<float>(label % 7); }

class ModelBuilder {
 public:
  Module module;

  ValueId call(const char* op, std::vector<ValueId> inputs, Attrs attrs, const std::string& path) {
    const Span span{0, static_cast<uint32_t>(10 * count_), static_cast<uint32_t>(10 * count_ + 5)};
    ++count_;
    auto node = call_op(module.graph, ops::find_op(op)->def, std::move(inputs), std::move(attrs), path, span);
    XRUN_CHECK(node.ok(), node.ok() ? "" : node.error().message);
    return module.graph.node(*node).outputs[0];
  }

 private:
  int count_ = 0;
};

// Returns the module as the language front end makes it, before graph/passes/pipeline.h.
inline Module make_module(const ModelOptions& options) {
  ModelBuilder b;
  Module& module = b.module;
  module.model = "small";
  Graph& graph = module.graph;
  TensorType input_type{DType::kF32, {kBatch, options.input}};
  if (options.image > 0) {
    input_type.dims = {kBatch, 3, options.image, options.image};
  }
  ValueId x = graph.add_input("x", input_type);
  TensorType label_type{DType::kI32, {kBatch}};
  label_type.classes = options.classes;
  const ValueId label = graph.add_input("label", label_type);
  if (options.image > 0) {
    const int64_t three = 3;
    x = b.call("conv", {x}, {{"width", int64_t{16}}, {"k", three}, {"bias", true}}, "picture.conv1");
    x = b.call("bn", {x}, {{"momentum", 0.1}, {"eps", 1e-5}}, "picture.bn1");
    x = b.call("relu", {x}, {}, "picture.relu1");
    const ValueId skip = x;
    x = b.call("conv", {x}, {{"width", int64_t{16}}, {"k", three}}, "picture.conv2");
    x = b.call("add", {x, skip}, {}, "picture.add");
    x = b.call("max_pool", {x}, {{"k", int64_t{2}}, {"stride", int64_t{2}}, {"pad", int64_t{0}}}, "picture.pool");
    x = b.call("flatten", {x}, {{"from", int64_t{1}}}, "picture.flatten");
  }
  x = b.call("linear", {x}, {{"out", options.width}, {"bias", true}}, "stem");
  for (int i = 0; i < options.layers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    const ValueId skip = x;
    x = b.call("linear", {x}, {{"out", options.width}, {"bias", !options.norm}}, name + ".linear");
    if (options.norm) {
      x = b.call("bn", {x}, {{"momentum", 0.1}, {"eps", 1e-5}}, name + ".bn");
    }
    x = b.call("relu", {x}, {}, name + ".relu");
    if (options.dropout > 0) {
      x = b.call("dropout", {x}, {{"p", options.dropout}}, name + ".dropout");
    }
    if (options.skips) {
      x = b.call("add", {x, skip}, {}, name + ".add");
    }
  }
  graph.outputs.push_back({"feature", x});
  if (!options.head) {
    x = b.call("linear", {x}, {{"out", options.classes}, {"bias", true}}, "out");
  } else if (options.cosine) {
    x = b.call("cosine_classifier", {x}, {{"classes", options.classes}}, "id");
  } else {
    x = b.call("classifier", {x}, {{"classes", options.classes}, {"bias", true}}, "id");
  }
  if (options.head) {
    graph.heads.push_back({"id", graph.value(x).producer, {}});
  }
  graph.outputs.push_back({"logits", x});
  const ValueId loss = options.cosine ? b.call("cosface", {x, label}, {{"margin", 0.1}, {"scale", 16.0}}, "loss")
                                      : b.call("softmax_ce", {x, label}, {{"scale", 1.0}, {"smoothing", 0.0}}, "loss");
  const ValueId accuracy = b.call("accuracy", {x, label}, {{"k", int64_t{1}}}, "accuracy");
  module.train.batch = options.batch;
  module.train.norm_rows = options.norm_rows;
  module.train.loss = {{loss}};
  module.train.duration = {static_cast<double>(options.steps), TrainSpan::kSteps};
  module.train.metrics.push_back({"accuracy", accuracy, "", {}});
  module.train.optimizer = test::optimizer(options.optimizer, options.arguments);
  CurveSpec curve;
  curve.kind = "constant";
  curve.from = options.rate;
  module.train.lr.push_back(curve);
  module.train.precision = options.precision;
  if (options.precision == PrecisionMode::kMixedF16) {
    module.train.loss_scale = options.loss_scale;
  }
  module.train.clip = options.clip;
  module.train.active_classes = options.active;
  if (options.weights != RowFormat::kF32 || options.states != RowFormat::kF32 ||
      options.untouched != Untouched::kAsIs || options.rows != RowPlace::kMemory) {
    GroupSpec group;
    group.path = "id";
    group.weights = options.weights;
    group.states = options.states;
    group.untouched = options.untouched;
    group.rows = options.rows;
    module.train.groups.push_back(group);
  }
  if (options.weighted) {
    module.train.class_weights.kind = ClassWeightsSpec::kInverseFrequency;
    module.train.class_input = "label";
  }
  module.train.seed = 7;
  module.train.log_every = {1, TrainSpan::kSteps};
  module.has_train = true;
  return std::move(module);
}

// Rows whose class is the largest of a few random projections. The model can learn them, and they are a function of the
// row number alone.
class SyntheticRows final : public BatchSource, public RowSource {
 public:
  SyntheticRows(const Graph& graph, const ModelOptions& options, int64_t count, uint64_t seed = 3)
      : options_(options), count_(count), seed_(seed), steps_{.rows = options.batch} {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      x_ = graph.inputs[i].name == "x" ? i : x_;
      label_ = graph.inputs[i].name == "label" ? i : label_;
      weight_ = graph.inputs[i].name == "label.class_weight" ? i : weight_;
    }
  }

  std::string_view name() const override { return "val"; }
  int64_t samples() const override { return count_; }

  Status start(int64_t first_step, std::span<const BatchView> ring) override {
    ring_ = ring;
    filled_ = first_step;
    return {};
  }
  void resize(const StepRows& steps) override { steps_ = steps; }
  bool ready(int64_t) override { return false; }
  Status wait(int64_t step) override {
    if (step == stops_at_) {
      return Error{ErrorKind::kInterrupted, "", "asked to stop", ""};
    }
    if (fails_from_ >= 0 && step >= fails_from_) {
      return broken();
    }
    const BatchView& batch = ring_[static_cast<size_t>(step) % ring_.size()];
    return fill(steps_.begin + (step - steps_.first) * steps_.rows, steps_.rows, batch);
  }
  void release(int64_t) override {}
  void stop() override {}

  void begin(int64_t first, int64_t rows, const BatchView& batch) override {
    rows_read_ = fails_from_ >= 0 ? Status(broken()) : fill(first, rows, batch);
  }
  Status finish() override { return rows_read_; }
  void cancel() override {}

  // Sets the first value of one sample.
  void poison(int64_t sample, float value = std::nanf("")) {
    poisoned_ = sample;
    poison_ = value;
  }
  // The batch of this step never arrives: the run is asked to stop while it waits for the batch.
  void stop_at(int64_t step) { stops_at_ = step; }
  // Makes all batches from this step on fail, and also all rows of an evaluation.
  void fail_from(int64_t step) { fails_from_ = step; }

 private:
  static Error broken() { return {ErrorKind::kContent, "XG0408", "too many samples are broken", ""}; }

  // Fills the rows that this process reads. All other rows get values that would spoil any result that used them.
  Status fill(int64_t first, int64_t rows, const BatchView& batch) {
    const RandomStream prototypes(seed_, 1);
    for (int64_t row = 0; row < rows; ++row) {
      const auto sample = static_cast<uint64_t>((first + row) % count_);
      const RandomStream random(seed_, 2, sample);
      const auto label = static_cast<int32_t>(random.below(1000, static_cast<uint64_t>(options_.classes)));
      auto* x = reinterpret_cast<float*>(batch.inputs[x_]) + row * options_.input;
      for (int64_t i = 0; i < options_.input; ++i) {
        const auto at = static_cast<uint64_t>(label * options_.input + i);
        x[i] = prototypes.normal(at) + 0.5F * random.normal(static_cast<uint64_t>(i));
      }
      if (static_cast<int64_t>(sample) == poisoned_) {
        x[0] = poison_;
      }
      if (!batch.wants(x_, row)) {
        std::fill_n(x, options_.input, std::nanf(""));
      }
      if (batch.inputs[label_] != nullptr) {
        const int32_t told = batch.wants(label_, row) ? label : static_cast<int32_t>(options_.classes) - 1 - label;
        std::memcpy(batch.inputs[label_] + row * 4, &told, 4);
      }
      if (weight_ > 0 && batch.inputs[weight_] != nullptr) {
        reinterpret_cast<float*>(batch.inputs[weight_])[row] =
            batch.wants(weight_, row) ? test_weight(label) : std::nanf("");
      }
    }
    return {};
  }

  ModelOptions options_;
  int64_t count_;
  uint64_t seed_;
  StepRows steps_;
  size_t x_ = 0;
  size_t label_ = 0;
  size_t weight_ = 0;  // input with the weights of rows; 0: rows have no weights
  std::span<const BatchView> ring_;
  int64_t filled_ = 0;
  Status rows_read_;
  int64_t poisoned_ = -1;
  float poison_ = 0;
  int64_t fails_from_ = -1;
  int64_t stops_at_ = -1;
};

}  // namespace xrun::runtime::testing
