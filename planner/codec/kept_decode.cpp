// Decodes the kept part of a model, whose bytes may be damaged or forged.
// Tests: tests/planner/program/kept_model_test.cpp
#include <algorithm>
#include <cmath>

#include "graph/limits.h"
#include "planner/codec/kept_codec.h"

namespace xrun::planner {
namespace {

// Limits that no model reaches. Sums of so many sizes do not overflow.
constexpr int64_t kMostBatch = int64_t{1} << 40;
constexpr int64_t kMostBytes = int64_t{1} << 60;
constexpr int64_t kMostHeld = int64_t{1} << 44;
constexpr int64_t kMostGrowth = 1 << 16;

bool is_measure(double value) { return std::isfinite(value) && value >= 0 && value < 1e30; }

// Whether the ids lie in a list of `count` elements.
template <typename Ids>
bool are_inside(const Ids& ids, size_t count) {
  return std::ranges::all_of(ids, [&](const auto id) { return id.valid() && static_cast<size_t>(id.index) < count; });
}

Span span_of(const fb::Span* in) { return in != nullptr ? Span{in->file(), in->begin(), in->end()} : Span(); }

}  // namespace

std::vector<std::string> KeptReader::texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* list) {
  std::vector<std::string> out;
  for (flatbuffers::uoffset_t i = 0; list != nullptr && i < list->size() && ok_; ++i) {
    out.push_back(text(list->Get(i)));
  }
  return out;
}

TrainSpan KeptReader::length(const fb::Length* in) {
  TrainSpan span{0, TrainSpan::kSteps};
  if (in != nullptr) {
    ok_ = ok_ && is_measure(in->amount()) && in->unit() <= TrainSpan::kSamples;
    span = {in->amount(), static_cast<TrainSpan::Unit>(ok_ ? in->unit() : 0)};
  }
  return span;
}

TensorType KeptReader::type_of(const fb::ModelType& in) {
  TensorType type{.dtype = value_of(in.dtype(), DType::kBool), .dims = {}, .sharded = in.sharded()};
  type.classes = in.classes();
  type.layout = value_of(in.layout(), Layout::kChannelsLast);
  double elements = 1;
  ok_ = ok_ && type.classes >= 0 && (in.dims() == nullptr || in.dims()->size() <= kMostDims);
  if (in.dims() != nullptr && take_elements<int64_t>(in.dims())) {
    type.dims.assign(in.dims()->begin(), in.dims()->end());
  }
  for (size_t d = 0; d < type.dims.size(); ++d) {
    ok_ = ok_ && type.dims[d] >= (d == 0 ? kPerBlock : 0);
    elements *= static_cast<double>(std::max<int64_t>(1, type.dims[d]));
  }
  const int64_t most = type.has_batch() || type.per_block() ? kMostElementsOfSample : kMostElementsOfWeight;
  ok_ = ok_ && elements <= static_cast<double>(most);
  return type;
}

void KeptReader::read_values(const fb::Model& in, Graph& graph) {
  std::vector<TensorType> types;
  each(in.types(), [&](const fb::ModelType& one) { types.push_back(type_of(one)); });
  for (const int type : ids<int>(in.values())) {
    ok_ = ok_ && type >= 0 && static_cast<size_t>(type) < types.size() && take(8);
    if (!ok_) {
      return;
    }
    graph.values.push_back({.type = types[static_cast<size_t>(type)], .name = {}, .producer = {}, .param = {}});
  }
}

void KeptReader::read_nodes(const fb::Model& in, Graph& graph) {
  std::vector<const OpDef*> ops;
  for (const std::string& name : texts(in.ops())) {
    ops.push_back(ops_->find(name));
    unknown_op_ = ops.back() == nullptr && unknown_op_.empty() ? name : unknown_op_;
  }
  const std::vector<std::string> paths = texts(in.paths());
  each(in.nodes(), [&](const fb::ModelNode& one) {
    const auto at = [](int index, size_t count) { return index >= 0 && static_cast<size_t>(index) < count; };
    ok_ = ok_ && at(one.op(), ops.size()) && at(one.path(), paths.size()) && is_measure(one.flops()) &&
          one.bytes() >= 0 && one.bytes() <= kMostBytes && take(paths[static_cast<size_t>(one.path())].size());
    if (!ok_) {
      return;
    }
    Node node{.op = ops[static_cast<size_t>(one.op())],
              .inputs = ids<ValueId>(one.inputs()),
              .outputs = ids<ValueId>(one.outputs()),
              .path = paths[static_cast<size_t>(one.path())],
              .span = span_of(one.span())};
    node.phase = one.backward() ? Phase::kBackward : Phase::kForward;
    node.forward = NodeId(one.forward());
    node.cost = OpCost{.flops = one.flops(), .bytes = one.bytes()};
    ok_ = ok_ && are_inside(node.inputs, graph.values.size()) && are_inside(node.outputs, graph.values.size()) &&
          !node.outputs.empty();
    graph.nodes.push_back(std::move(node));
  });
}

void KeptReader::read_params(const fb::Model& in, Graph& graph) {
  each(in.params(), [&](const fb::ModelParam& one) {
    Parameter param;
    param.name = text(one.name());
    param.value = ValueId(one.value());
    param.trained = one.trained();
    param.head = one.head();
    param.frozen = one.frozen();
    param.tied = ParamId(one.tied());
    ok_ = ok_ && graph.values.has(param.value) && (!param.tied.valid() || param.tied.index < std::ssize(*in.params()));
    if (ok_) {
      graph.value(param.value).param = ParamId(graph.params.size());
      graph.param_grads.push_back(one.has_gradient() ? param.value : ValueId());
      graph.params.push_back(std::move(param));
    }
  });
  each(in.heads(), [&](const fb::ModelHead& one) {
    ok_ = ok_ && graph.nodes.has(NodeId(one.node()));
    graph.heads.push_back({text(one.name()), NodeId(one.node()), {}});
  });
}

void KeptReader::read_lines(const fb::Model& in, KeptModel& kept) {
  const std::vector<std::string> files = texts(in.files());
  each(in.lines(), [&](const fb::ModelLine& one) {
    ok_ = ok_ && one.file() >= 0 && static_cast<size_t>(one.file()) < files.size() &&
          take(files[static_cast<size_t>(one.file())].size()) && one.line() >= 1;
    if (ok_) {
      kept.lines.push_back({span_of(one.span()), files[static_cast<size_t>(one.file())], one.line(), text(one.text())});
    }
  });
}

void KeptReader::read_train(const fb::ModelTrain& in, TrainSpec& train) {
  train.batch = in.batch();
  train.duration = length(in.duration());
  if (in.growth_times() != 0) {
    train.growth = GrowthSpec{.first = in.growth_first(), .times = in.growth_times()};
    train.growth->after = length(in.growth_after());
    train.growth->over = length(in.growth_over());
    ok_ = ok_ && train.growth->first >= 1 && train.growth->times >= 1 && train.growth->times <= kMostGrowth;
  }
  train.active_classes.rebuild = length(in.rebuild());
  train.checkpoint_every = length(in.checkpoint_every());
  train.checkpoint_async = in.checkpoint_async();
  train.init_checkpoint = text(in.init_checkpoint());
  for (std::string& source : texts(in.measured())) {
    train.metrics.push_back({.name = {}, .value = {}, .source = std::move(source)});
  }
  train.compress.density = in.density();
  train.compress.on = texts(in.compressed());
  if (in.warmup() != nullptr) {
    train.compress.warmup = length(in.warmup());
  }
  train.compress.per_node = in.per_node();
  ok_ = ok_ && train.batch >= 1 && train.batch <= kMostBatch && is_measure(in.density()) && in.density() <= 1;
}

void KeptReader::read_settings(const fb::Model& in, Module& module) {
  each(in.sources(), [&](const fb::ModelSource& one) {
    ok_ = ok_ && one.held() >= -1 && one.held() <= kMostHeld;
    module.data.sources.push_back(
        {.name = text(one.name()), .reader = {.name = text(one.reader()), .args = {}, .span = {}}, .held = one.held()});
  });
  module.data.bindings.resize(in.fed() ? 1 : 0);
  module.has_data = in.fed();
  module.cluster.storage = in.storage();
  if (in.memory_limit() > 0) {
    module.schedule.memory_limit = {in.memory_limit(), {}};
  }
  ok_ = ok_ && is_measure(in.storage()) && in.train() != nullptr;
  if (ok_) {
    read_train(*in.train(), module.train);
  }
}

void KeptReader::read_builds(const fb::Plan& in, Plan& plan) {
  if (in.graphs() != nullptr && take_elements<fb::GraphBuild>(in.graphs())) {
    for (const fb::GraphBuild* one : *in.graphs()) {
      ok_ = ok_ && one->head() >= 0 && is_measure(one->exact()) && is_measure(one->approximate());
      plan.graphs.push_back({one->head(), one->is_exact(), one->exact(), one->approximate()});
    }
  }
  if (in.sizes() != nullptr && take_elements<fb::StepSize>(in.sizes())) {
    for (const fb::StepSize* one : *in.sizes()) {
      ok_ = ok_ && one->units() >= 1 && one->batch() >= 1 && one->used() >= 0 && is_measure(one->step());
      StepProgram size{.units = one->units(), .program = {}, .step = one->step()};
      size.program.batch = one->batch();
      size.program.arenas = {{kHost, one->used(), one->used()}};
      plan.smaller.push_back(std::move(size));
    }
  }
}

Status KeptReader::read(const fb::Plan& in, const std::string& name, Plan& plan) {
  read_builds(in, plan);
  if (in.kept() != nullptr && ops_ != nullptr) {
    plan.kept = read_model(*in.kept());
    plan.kept->module.model = plan.model;
    const size_t heads = plan.kept->module.graph.heads.size();
    ok_ = ok_ && std::ranges::all_of(plan.graphs,
                                     [&](const GraphBuild& build) { return static_cast<size_t>(build.head) < heads; });
  }
  if (!unknown_op_.empty()) {
    return Error{ErrorKind::kContent, "XG0624",
                 "`" + name + "` has the operator `" + unknown_op_ + "`, which this xrun lacks",
                 "use the xrun that made the plan, version " + text(in.xrun_version())};
  }
  return ok_ ? Status()
             : Error{ErrorKind::kContent, "XG0621", "`" + name + "` has a field of its model out of range or lacks one",
                     "make the plan again with `xrun plan`"};
}

KeptModel KeptReader::read_model(const fb::Model& in) {
  KeptModel kept;
  kept.module.has_train = true;
  read_values(in, kept.module.graph);
  read_nodes(in, kept.module.graph);
  read_params(in, kept.module.graph);
  read_lines(in, kept);
  read_settings(in, kept.module);
  kept.rates = {in.f32_rate(), in.bf16_rate(), in.bytes_rate()};
  ok_ = ok_ && is_measure(in.f32_rate()) && is_measure(in.bf16_rate()) && is_measure(in.bytes_rate());
  return kept;
}

}  // namespace xrun::planner
