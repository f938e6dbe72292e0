// Operators on tensors: appends the nodes of a call to the graph.
// Tests: tests/lang/check_test.cpp, tests/lang/check_golden_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"
#include "lang/text/nearest.h"

namespace xrun::lang {

// Reports a margin or a filter on logits that are not cosines. cos(angle + margin) is defined only for cosines; for
// other logits the loss and its gradient would disagree.
bool Evaluator::refuse_margin(const OpDef& op, const Attrs& attrs, ValueId logits, Span at) {
  const NodeId producer = work_.graph.value(logits).producer;
  const auto form = op.margin(attrs);
  if (!producer.valid() || !form.ok() || !form->of_cosines()) {
    return false;
  }
  const Node& head = work_.graph.node(producer);
  if (head.op->head == nullptr || head.op->head(head.attrs).cosine) {
    return false;
  }
  const std::string_view call = sources_.text(head.span);
  const auto says = [&](std::string_view word) { return call.find(word) != std::string_view::npos; };
  const bool plain = call.starts_with(head.op->name) && !says("bias") && !says("true") && !says("false");
  const Span name{head.span.file, head.span.begin, head.span.begin + static_cast<uint32_t>(head.op->name.size())};
  Diagnostic d = fault(
      "XG0304", at,
      fmt::format("`{}` {} cosines, and `{}` gives other logits", op.name,
                  form->filter < 1 ? "filters" : "sets a margin on", head.op->name),
      "its logits are not cosines",
      plain
          ? replacement("let the head normalise features and class weights", name, "cosine_classifier")
          : Fix{"let the head normalise features and class weights: cosine_classifier(x, classes), which has no bias"});
  d.secondary.push_back({head.span, "logits of any size: nothing is normalised"});
  report(std::move(d));
  return true;
}

Datum Evaluator::refuse_shapes(const Error& error, const std::vector<Datum>& inputs, Span at) {
  const std::string shapes = listed(inputs, [&](const Datum& input) { return to_text(type_of(input)); });
  return refuse(error.code.empty() ? "XG0302" : error.code.c_str(), at, error.message,
                shapes.empty() ? "" : "gets " + shapes, {error.help});
}

// Applies an operator that expands to several calls of another one, and returns a tuple of their results.
Datum Evaluator::apply_parts(const OpDef& op, const std::vector<Datum>& inputs, const Attrs& attrs, const Name& label,
                             Span at) {
  std::vector<TensorType> types;
  for (const Datum& input : inputs) {
    types.push_back(type_of(input));
  }
  const auto shape = op.infer(types, attrs);
  if (!shape.ok()) {
    return refuse_shapes(shape.error(), inputs, at);
  }
  if (!enter_scope(op.name, label, at)) {
    return {};
  }
  std::vector<Datum> items;
  for (PartCall& part : op.parts(types, attrs)) {
    const OpDef* each = options_.ops->find(part.op);
    items.push_back(each != nullptr && spend(at) ? apply(*each, inputs, std::move(part.attrs), {}, at) : Datum());
  }
  work_.names.leave();
  const bool failed = std::ranges::any_of(items, &Datum::is_error);
  if (items.size() == 1 && !failed) {
    const std::vector<ValueId>& outputs = work_.graph.node(work_.graph.value(items[0].tensor).producer).outputs;
    if (outputs.size() > 1) {
      Datum last = make_tensor(outputs.back());
      last.span = at;
      return last;
    }
  }
  return failed ? Datum() : make_list(DatumKind::kTuple, std::move(items), at);
}

Datum Evaluator::apply(const OpDef& op, std::vector<Datum> inputs, Attrs attrs, const Name& label, Span at,
                       std::string_view name, std::span<const NamedValue> given) {
  if (op.infer == nullptr) {
    return refuse("XG0199", at, {"the operator `{}` is not available yet", op.name}, "of a later edition of xrun",
                  others_of_its_kind(op));
  }
  const auto path = work_.names.leaf(name.empty() ? op.name : name, label.text);
  if (!path) {
    return same_label(at, label.text);
  }
  work_.name_weight += static_cast<int64_t>(path->size() / 64);
  if (op.margin != nullptr && refuse_margin(op, attrs, inputs[0].tensor, at)) {
    return {};
  }
  if (!inputs.empty()) {
    warn_applied_twice(op, inputs[0], at);
  }
  std::vector<ValueId> ids;
  for (const Datum& input : inputs) {
    ids.push_back(input.tensor);
  }
  const size_t owned = work_.graph.params.size();
  const int64_t before = work_.size();
  auto made = xrun::call_op(work_.graph, op, std::move(ids), std::move(attrs), *path, at, given);
  if (!made.ok()) {
    return refuse_shapes(made.error(), inputs, at);
  }
  constexpr int64_t kStepsOfItem = 8;  // adding an item costs about as much as this many steps of evaluation
  steps_ += kStepsOfItem * (work_.size() - before);
  for (size_t i = owned; label && i < work_.graph.params.size(); ++i) {
    work_.graph.params[i].span = label.span;
    work_.graph.params[i].labelled = true;
  }
  Node& node = work_.graph.node(*made);
  node.expansion = work_.expansion_id();
  const bool owns = std::any_of(node.inputs.begin(), node.inputs.end(),
                                [&](ValueId id) { return work_.graph.value(id).param.valid(); });
  if (options_.strict && owns && !label && work_.names.count(op.name) > 1) {
    diagnostics_.add(warning(
        "XG0225", at, {"`{}` has no label, and it is not the only `{}` here", op.name, op.name},
        {"its tensors are called `{}`: adding one before it would rename them", node.path},
        replacement("give it one", {at.file, at.end, at.end}, {" as {}", node.path.substr(node.path.rfind('.') + 1)})));
  }
  const size_t visible = std::min(node.outputs.size(), static_cast<size_t>(std::max(op.visible_outputs, 1)));
  Datum result = make_tensor(node.outputs[0]);
  result.span = at;
  if (visible > 1) {
    std::vector<Datum> items;
    for (size_t i = 0; i < visible; ++i) {
      items.push_back(make_tensor(node.outputs[i]));
      items.back().span = at;
    }
    result = make_items(DatumKind::kTuple, std::move(items));
    result.span = at;
  }
  return result;
}

}  // namespace xrun::lang
