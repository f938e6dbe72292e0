// Tests: tests/planner/program/kept_model_test.cpp
#include <map>

#include "planner/codec/kept_codec.h"

namespace xrun::planner {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using Strings = flatbuffers::Vector<Offset<flatbuffers::String>>;

template <typename Tag>
std::vector<int32_t> numbers(const std::vector<Id<Tag>>& ids) {
  std::vector<int32_t> list;
  for (const Id<Tag> id : ids) {
    list.push_back(id.index);
  }
  return list;
}

fb::Span span_of(const Span& span) { return {span.file, span.begin, span.end}; }
fb::Length length_of(const TrainSpan& span) { return {span.amount, static_cast<uint8_t>(span.unit)}; }

// Texts that are stored once each, and referred to by their index.
class TextList {
 public:
  int index(const std::string& text) {
    const auto [at, is_new] = known_.emplace(text, static_cast<int>(all_.size()));
    if (is_new) {
      all_.push_back(text);
    }
    return at->second;
  }
  Offset<Strings> put(FlatBufferBuilder& builder) const { return builder.CreateVectorOfStrings(all_); }

 private:
  std::map<std::string, int> known_;
  std::vector<std::string> all_;
};

class Writer {
 public:
  explicit Writer(FlatBufferBuilder& builder) : builder_(builder) {}

  Offset<fb::Model> write(const KeptModel& kept) {
    const Module& module = kept.module;
    const Graph& graph = module.graph;
    const auto values = put_values(graph);
    const auto types = builder_.CreateVector(types_);
    const auto nodes = put_nodes(graph);
    const auto params = put_params(graph);
    std::vector<Offset<fb::ModelHead>> heads;
    for (const Head& head : graph.heads) {
      heads.push_back(fb::CreateModelHead(builder_, builder_.CreateString(head.name), head.node.index));
    }
    const auto lines = put_lines(kept);
    std::vector<Offset<fb::ModelSource>> sources;
    for (const SourceSpec& source : module.data.sources) {
      sources.push_back(fb::CreateModelSource(builder_, builder_.CreateString(source.name),
                                              builder_.CreateString(source.reader.name), source.held.value_or(-1)));
    }
    const auto train = put_train(module.train);
    const auto& limit = module.schedule.memory_limit;
    return fb::CreateModel(builder_, ops_.put(builder_), paths_.put(builder_), types, values, nodes, params,
                           builder_.CreateVector(heads), files_.put(builder_), lines, builder_.CreateVector(sources),
                           !module.data.bindings.empty(), train, module.cluster.storage, limit ? limit->value : 0,
                           kept.rates.f32, kept.rates.bf16, kept.rates.bytes);
  }

 private:
  // Returns the index of a type; equal types are stored once.
  int index(const TensorType& type) {
    const std::string key = to_text(type) + (type.layout == Layout::kRowMajor ? "" : " channels last") +
                            std::to_string(type.classes) + (type.sharded ? " sharded" : "");
    const auto [at, is_new] = known_types_.emplace(key, static_cast<int>(types_.size()));
    if (is_new) {
      types_.push_back(fb::CreateModelType(builder_, static_cast<uint8_t>(type.dtype), builder_.CreateVector(type.dims),
                                           type.sharded, type.classes, static_cast<uint8_t>(type.layout)));
    }
    return at->second;
  }

  Offset<flatbuffers::Vector<int32_t>> put_values(const Graph& graph) {
    std::vector<int32_t> list;
    for (const Value& value : graph.values) {
      list.push_back(index(value.type));
    }
    return builder_.CreateVector(list);
  }

  Offset<flatbuffers::Vector<Offset<fb::ModelNode>>> put_nodes(const Graph& graph) {
    std::vector<Offset<fb::ModelNode>> list;
    for (const Node& node : graph.nodes) {
      const fb::Span span = span_of(node.span);
      const OpCost cost = node.cost.value_or(OpCost());
      list.push_back(fb::CreateModelNode(builder_, ops_.index(std::string(node.op->name)), paths_.index(node.path),
                                         builder_.CreateVector(numbers(node.inputs)),
                                         builder_.CreateVector(numbers(node.outputs)), node.phase == Phase::kBackward,
                                         node.forward.index, cost.flops, cost.bytes, &span));
    }
    return builder_.CreateVector(list);
  }

  Offset<flatbuffers::Vector<Offset<fb::ModelParam>>> put_params(const Graph& graph) {
    std::vector<Offset<fb::ModelParam>> list;
    for (size_t p = 0; p < graph.params.size(); ++p) {
      const Parameter& param = graph.params[p];
      const bool has_gradient = p < graph.param_grads.size() && graph.param_grads[p].valid();
      list.push_back(fb::CreateModelParam(builder_, builder_.CreateString(param.name), param.value.index, param.trained,
                                          param.head, param.frozen, has_gradient, param.tied.index));
    }
    return builder_.CreateVector(list);
  }

  Offset<flatbuffers::Vector<Offset<fb::ModelLine>>> put_lines(const KeptModel& kept) {
    std::vector<Offset<fb::ModelLine>> list;
    for (const SourceLine& line : kept.lines) {
      const fb::Span span = span_of(line.span);
      list.push_back(
          fb::CreateModelLine(builder_, &span, files_.index(line.file), line.line, builder_.CreateString(line.text)));
    }
    return builder_.CreateVector(list);
  }

  Offset<fb::ModelTrain> put_train(const TrainSpec& train) {
    std::vector<std::string> measured;
    for (const MetricSpec& metric : train.measured()) {
      measured.push_back(metric.source);
    }
    const GrowthSpec growth = train.growth.value_or(GrowthSpec{.times = 0});
    const fb::Length duration = length_of(train.duration);
    const fb::Length after = length_of(growth.after);
    const fb::Length over = length_of(growth.over);
    const fb::Length rebuild = length_of(train.active_classes.rebuild);
    const fb::Length every = length_of(train.checkpoint_every);
    const CompressSpec& compress = train.compress;
    const fb::Length warmup = length_of(compress.warmup.value_or(TrainSpan()));
    return fb::CreateModelTrain(builder_, train.batch, &duration, growth.first, growth.times, &after, &over, &rebuild,
                                &every, train.checkpoint_async, builder_.CreateString(train.init_checkpoint),
                                builder_.CreateVectorOfStrings(measured), compress.density,
                                builder_.CreateVectorOfStrings(compress.on), compress.warmup ? &warmup : nullptr,
                                compress.per_node);
  }

  FlatBufferBuilder& builder_;
  TextList ops_;
  TextList paths_;
  TextList files_;
  std::map<std::string, int> known_types_;
  std::vector<Offset<fb::ModelType>> types_;
};

}  // namespace

Offset<fb::Model> encode_kept(FlatBufferBuilder& builder, const KeptModel& kept) { return Writer(builder).write(kept); }

}  // namespace xrun::planner
