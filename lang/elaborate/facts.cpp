#include "lang/elaborate/facts.h"

#include <algorithm>

#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

constexpr size_t kFew = 4;

std::string shown(const Datum& value, const Graph& graph) {
  if (value.kind == DatumKind::kTensor) {
    const Value& tensor = graph.value(value.tensor);
    // The metric `recall_at`, which has a source, returns the values by which evaluations compare samples. Users need
    // not see the type of these values, so a text is shown in its place.
    const bool is_metric = tensor.producer.valid() &&
                           graph.node(tensor.producer).op->signature.find("source: source") != std::string_view::npos;
    const bool is_share = is_metric && tensor.type.dims != std::vector<int64_t>{kBatch};
    return is_share ? "a share of the samples of a source" : to_text(tensor.type);
  }
  const bool is_tuple = value.kind == DatumKind::kTuple && !value.items->empty() && value.items->size() <= 16;
  return is_tuple ? "(" + listed(*value.items, [&](const Datum& item) { return shown(item, graph); }) + ")"
                  : to_text(value);
}

}  // namespace

void Facts::add_value(const Span& at, const Datum& value, const Graph& graph) {
  if (!at.valid() || value.is_error() || value.kind == DatumKind::kScalar) {
    return;
  }
  ValueFact& fact = values_[at];
  const TensorType* type = value.kind == DatumKind::kTensor ? &graph.value(value.tensor).type : nullptr;
  if (fact.has_more || (type != nullptr && !fact.texts.empty() && fact.last == *type)) {
    return;
  }
  std::string text = shown(value, graph);
  if (std::ranges::find(fact.texts, text) == fact.texts.end()) {
    fact.has_more = fact.texts.size() == kFew;
    fact.last = type != nullptr ? *type : TensorType();
    if (!fact.has_more) {
      fact.texts.push_back(std::move(text));
    }
  }
}

void Facts::add_call(const Span& at, const Graph& graph, size_t owned, Flops flops) {
  CallFact& fact = calls_[at];
  fact.flops += flops;
  fact.first = fact.tensors == 0 && owned < graph.params.size() ? graph.params[owned].name : fact.first;
  for (; owned < graph.params.size(); ++owned) {
    const Parameter& parameter = graph.params[owned];
    fact.tensors += 1;
    fact.elements += parameter.trained ? graph.value(parameter.value).type.row_elements() : 0;
  }
}

const ValueFact* Facts::value(const Span& at) const {
  const auto found = values_.find(at);
  return found == values_.end() ? nullptr : &found->second;
}

const CallFact* Facts::call(const Span& at) const {
  const auto found = calls_.find(at);
  return found == calls_.end() ? nullptr : &found->second;
}

}  // namespace xrun::lang
