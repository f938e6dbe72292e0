// Calls of operators: arguments become operands and attributes; reports calls that probably do not mean what they say.
// Tests: tests/lang/check_test.cpp, tests/lang/first_words_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

// The height and the width that a `pair` gives; a single number is both.
std::pair<int64_t, int64_t> sides_of(const Datum& value) {
  const bool is_list = value.items != nullptr && value.items->size() == 2;
  const Datum& height = is_list ? value.items->front() : value;
  const Datum& width = is_list ? value.items->back() : value;
  return {to_int64(height).value_or(1), to_int64(width).value_or(1)};
}

// Whether an expression is a bare name that nothing declares.
bool is_misspelt(const Expr& value, Scope& scope) {
  return value.kind == ExprKind::kName && scope.find(value.name.text) == nullptr && scope.file != nullptr &&
         !scope.file->find(value.name.text) && !scope.file->is_missing(value.name.text);
}

}  // namespace

// Removes the arguments that give a tensor which the operator would otherwise own, such as `weight=table`, and returns
// these tensors. An argument with an unknown name is reported and gets no value.
std::vector<NamedValue> Evaluator::given_tensors(const Signature& signature, const Call& call, Scope& scope,
                                                 std::vector<Arg>& others) {
  std::vector<NamedValue> given;
  for (const Arg& arg : call.args) {
    const Expr& value = (*call.ast)[arg.value];
    // `bias=b` gives a tensor, whereas `bias=true` requests a parameter.
    const bool known = !arg.name || std::ranges::any_of(signature.params, [&](const Param& param) {
      return param.name.text == arg.name.text && param.type.name.text != "bool";
    });
    const Local* local = known || value.kind != ExprKind::kName ? nullptr : scope.find(value.name.text);
    const bool is_own = local != nullptr && local->value.kind == DatumKind::kTensor &&
                        work_.graph.value(local->value.tensor).param.valid();
    if (is_own && std::ranges::find(given, arg.name.text, &NamedValue::name) != given.end()) {
      report(with_signature(fault("XG0204", arg.span, {"`{}` of `{}` is given twice", arg.name.text, signature.name},
                                  "again", {"leave one of the two out"}),
                            signature));
    } else if (!known && is_misspelt(value, scope) && arg.name.text == "weight") {
      (void)eval(*call.ast, arg.value, scope);  // embed(weight=tabel): reports the name
      given.push_back({std::string(arg.name.text), ValueId()});
    } else if (is_own) {
      given.push_back({std::string(arg.name.text), eval(*call.ast, arg.value, scope).tensor});
    } else {
      others.push_back(arg);
    }
  }
  return given;
}

bool Evaluator::refuse_unused_init(const std::vector<BoundArg>& bound, std::span<const NamedValue> given) {
  const auto init =
      std::ranges::find_if(bound, [](const BoundArg& arg) { return arg.given && arg.param->type.name.text == "init"; });
  if (init == bound.end() || std::ranges::find(given, "weight", &NamedValue::name) == given.end()) {
    return false;
  }
  refuse("XG0205", init->span,
         {"`{}` has no effect: the weight that is given has its own initial values", init->param->name.text}, "",
         {"leave it out, or change the initial value of the `param`"});
  return true;
}

Datum Evaluator::call_op(const OpDef& op, const Call& written, Scope& scope) {
  const Signature& signature = signatures_.of(op);
  Scope env;
  Call call = written;
  std::vector<Arg> others;
  const std::vector<NamedValue> given =
      op.parts == nullptr ? given_tensors(signature, written, scope, others) : std::vector<NamedValue>();
  if (std::ranges::any_of(given, [](const NamedValue& one) { return !one.value.valid(); })) {
    return {};  // the fault was already reported
  }
  if (!given.empty()) {
    call.args = others;
  }
  const auto bound = bind(signature, call, scope, env, call.flowing ? Span{} : call.span);
  if (!bound) {
    return {};
  }
  auto attrs = attributes(signature, *bound);
  if (!attrs || refuse_unused_init(*bound, given)) {
    return {};
  }
  for (const NamedValue& one : given) {
    if (attrs->find(one.name) != nullptr) {
      attrs->set(one.name, true);
    }
  }
  std::vector<Datum> inputs;
  for (const BoundArg& arg : *bound) {
    if (takes_tensor(*arg.param)) {
      for (const Datum& value : arg.values) {
        if (value.kind == DatumKind::kTensor) {
          inputs.push_back(value);
        }
      }
    }
  }
  if (op.availability == Availability::kNotYet) {
    not_yet(call.name_span, {"the operator `{}`", op.name}, others_of_its_kind(op));
  }
  if (begins_with_size(op, call, *bound)) {
    const bool has_meaning = op.infer(std::vector{type_of(inputs[0])}, *attrs).ok();
    explain_size(op, call, *bound, !has_meaning);
    if (!has_meaning) {
      return {};
    }
  }
  Datum made = op.parts != nullptr ? apply_parts(op, inputs, *attrs, call.label, call.span)
                                   : apply(op, std::move(inputs), *attrs, call.label, call.span, {}, given);
  note_columns(*bound, made);
  warn_padded_patches(op, *bound, made, call.span);
  return made;
}

// Warns about default padding of windows of an even size whose stride is equal to the size. Such windows are meant as
// patches; with the padding there is one more patch, and half of it lies outside.
void Evaluator::warn_padded_patches(const OpDef& op, const std::vector<BoundArg>& bound, const Datum& made, Span at) {
  const auto given = [&](std::string_view name) {
    const auto arg = std::ranges::find(bound, name, [](const BoundArg& one) { return one.param->name.text; });
    return arg == bound.end() ? nullptr : &*arg;
  };
  const BoundArg* k = given("k");
  const BoundArg* stride = given("stride");
  const BoundArg* pad = given("pad");
  if (made.kind != DatumKind::kTensor || k == nullptr || stride == nullptr || pad == nullptr || pad->given) {
    return;
  }
  const auto [height, width] = sides_of(k->value());
  const auto [padded_height, padded_width] = sides_of(pad->value());
  const bool even = (height % 2 == 0 && padded_height > 0) || (width % 2 == 0 && padded_width > 0);
  if (!even || sides_of(k->value()) != sides_of(stride->value())) {
    return;
  }
  const auto text = [](int64_t a, int64_t b) { return a == b ? fmt::format("{}", a) : fmt::format("[{}, {}]", a, b); };
  const std::vector<int64_t>& from = type_of(bound.front().value()).dims;
  const std::vector<int64_t>& to = type_of(made).dims;
  const bool in_brackets = sources_.text(at).ends_with(')');
  report(warning("XG0308", at,
                 {"`{}` with k={} and stride={} pads by {}: {} x {} becomes {} x {}, not {} x {}", op.name,
                  text(height, width), text(height, width), text(padded_height, padded_width), from[2], from[3], to[2],
                  to[3], from[2] / height, from[3] / width},
                 "these are not patches side by side",
                 in_brackets ? replacement("say that patches have no padding, or write pad yourself",
                                           {at.file, at.end - 1, at.end - 1}, ", pad=0")
                             : Fix{"say that patches have no padding: pad=0"}));
}

void Evaluator::note_columns(const std::vector<BoundArg>& bound, const Datum& made) {
  constexpr size_t kMany = 1000;  // bounds the memory; faults of further logits are reported at the label
  if (made.kind != DatumKind::kTensor || work_.columns.size() >= kMany) {
    return;
  }
  const std::vector<int64_t>& dims = type_of(made).dims;
  for (const BoundArg& arg : bound) {
    const Datum& value = arg.value();
    if (dims.size() == 2 && dims[0] == kBatch && arg.given && to_int64(value) == dims[1]) {
      work_.columns[made.tensor.index] = value.origin.valid() ? value.origin : value.span;
    }
  }
}

}  // namespace xrun::lang
