// Rewrites calls in the style of other frameworks as ours: `Conv2d(3, 64, kernel_size=3)` becomes `conv(64, k=3)`.
// Tests: tests/lang/first_time_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lang/elaborate/evaluator.h"
#include "lang/text/foreign_names.h"

namespace xrun::lang {
namespace {

// Whether the value that an argument has in another framework means the same for our argument. `padding="same"` does
// not.
bool keeps_meaning(const Ast& ast, const Expr& expr, std::span<const Param> params, std::string_view ours) {
  const auto param = std::ranges::find_if(params, [&](const Param& p) { return p.name.text == ours; });
  const bool is_pair = param != params.end() && param->type.name.text == "pair" && ast[expr.items].size() == 2;
  const bool is_list = expr.kind == ExprKind::kTuple || expr.kind == ExprKind::kList;
  return expr.kind != ExprKind::kString && (!is_list || is_pair);
}

size_t flowing_values(const Call& call) {
  return !call.flowing ? 0 : call.flowing->kind == DatumKind::kTuple ? call.flowing->items->size() : 1;
}

// The whole number that an argument gives: its value if it was bound, otherwise the literal in the text.
std::optional<int64_t> number_of(const Ast& ast, ExprId id, size_t place, std::span<const BoundArg> bound) {
  if (place < bound.size() && bound[place].given) {
    const Datum& value = bound[place].value();
    const bool both =
        value.items != nullptr && value.items->size() == 2 && equal(value.items->front(), value.items->back());
    return whole_number(both ? value.items->front() : value);
  }
  const bool is_number = ast[id].kind == ExprKind::kNumber;
  const auto whole = is_number ? ast.number(id).whole_in_base() : std::nullopt;
  return whole ? to_int64(make_whole(*whole)) : std::nullopt;
}

}  // namespace

// The type of the tensor that an operator works on, if it is known before the call is evaluated.
const TensorType* Evaluator::first_type(const Call& call, std::span<const BoundArg> bound) const {
  const Datum* value = call.flowing ? &*call.flowing : bound.empty() || !bound[0].given ? nullptr : &bound[0].value();
  value =
      value != nullptr && value->kind == DatumKind::kTuple && !value->items->empty() ? &value->items->front() : value;
  return value != nullptr && value->kind == DatumKind::kTensor ? &type_of(*value) : nullptr;
}

bool Evaluator::begins_with_size(const OpDef& op, const Call& call, std::span<const BoundArg> bound) {
  const TensorType* x = first_type(call, bound);
  if (op.begins_with_size == nullptr || x == nullptr || x->dims.size() < 2) {
    return false;
  }
  const auto params = signatures_.of(op).params;
  std::vector<int64_t> numbers;
  size_t place = flowing_values(call);
  for (const Arg& arg : call.args) {
    // In conv(3, 64, kernel_size=3), 64 has taken the position of `k`, so the value of `kernel_size` follows as the
    // next number.
    const auto ours = arg.name ? our_argument(op, arg.name.text) : std::nullopt;
    const auto named = std::ranges::find_if(params, [&](const Param& p) { return ours == p.name.text; });
    if (arg.name && (named == params.end() || static_cast<size_t>(named - params.begin()) >= place)) {
      continue;
    }
    const size_t at = arg.name ? params.size() : place++;
    if (at < params.size() && takes_tensor(params[at])) {
      continue;
    }
    const auto number = number_of(*call.ast, arg.value, at, bound);
    if (!number) {
      break;
    }
    numbers.push_back(*number);
  }
  return op.begins_with_size(*x, numbers);
}

Fix Evaluator::in_our_words(const OpDef& op, const Call& call, std::string title, std::span<const BoundArg> bound) {
  const Signature& signature = signatures_.of(op);
  const auto params = signature.params;
  const auto constants = std::ranges::count_if(params, [](const Param& param) { return !takes_tensor(param); });
  const std::string_view written = sources_.text(call.name_span);
  const std::string_view implied = implied_argument(op, written.substr(written.rfind('.') + 1));
  bool clear = true;  // whether every argument has a meaning in this language
  bool skips = begins_with_size(op, call, bound);
  std::vector<std::string> list;
  std::map<std::string_view, std::string_view> values;  // the text of each argument; key: parameter
  size_t place = flowing_values(call);
  for (const Arg& arg : call.args) {
    const std::string_view value = sources_.text((*call.ast)[arg.value].span);
    if (!arg.name) {
      const bool is_constant = place >= params.size() || !takes_tensor(params[place]);
      if (is_constant && (std::exchange(skips, false) || constants == 0)) {
        continue;
      }
      clear = clear && (place < params.size() || signature.variadic);
      if (place < params.size() && !signature.variadic) {
        values[params[place++].name.text] = value;
      }
      list.emplace_back(value);
      continue;
    }
    const auto own =
        std::ranges::find_if(params, [&](const Param& p) { return is_spelling_of(arg.name.text, p.name.text); });
    const auto name = own != params.end() ? std::optional(own->name.text) : our_argument(op, arg.name.text);
    clear = clear && name && (own != params.end() || keeps_meaning(*call.ast, (*call.ast)[arg.value], params, *name));
    if (name && !name->empty()) {
      clear = values.emplace(*name, value).second && clear;
      list.push_back(fmt::format("{}={}", *name, value));
    }
  }
  const size_t cut = implied.find('=');
  if (cut != std::string_view::npos && !values.contains(implied.substr(0, cut))) {
    const auto value = values.find(implied.substr(cut + 1));
    clear = clear && value != values.end();
    list.push_back(fmt::format("{}={}", implied.substr(0, cut), clear ? value->second : "..."));
  }
  const Span whole = join(call.name_span, call.span);
  if (!clear || sources_.text(whole).find('\n') != std::string_view::npos) {
    return {written == op.name ? std::move(title) : fmt::format("{}; it is called as {}", title, signature.text)};
  }
  const bool brackets = !list.empty() || (!call.flowing && whole.end > call.name_span.end);
  return replacement(std::move(title), whole,
                     {"{}{}", op.name, brackets ? fmt::format("({})", fmt::join(list, ", ")) : ""}, true);
}

// Explains that a call begins with a size which the operator takes from its input. `is_error`: the call has no meaning
// here as it is written.
void Evaluator::explain_size(const OpDef& op, const Call& call, std::span<const BoundArg> bound, bool is_error) {
  const auto params = signatures_.of(op).params;
  size_t place = 0;
  while (takes_tensor(params[place])) {
    ++place;
  }
  const std::string_view name = params[place].name.text;
  const int64_t number = whole_number(bound[place].value()).value_or(0);
  Diagnostic d = fault("XG0309", bound[place].span,
                       {"`{}` does not take the size of its input, so {} is read as `{}`", op.name, number, name},
                       "the size of the input", {in_our_words(op, call, "leave the size of the input out", bound)});
  if (!is_error) {
    d.severity = Severity::kWarning;
    d.fixes[0].sure = false;  // the call also has a meaning as it is written
    d.notes.push_back(fmt::format("if this is intended, name it: {}={}", name, number));
  }
  report(with_signature(std::move(d), signatures_.of(op)));
}

// Warns if an operator is applied to a result of the operator that it itself begins with: softmax_ce(softmax(x),
// label).
void Evaluator::warn_applied_twice(const OpDef& op, const Datum& input, Span at) {
  const NodeId producer = work_.graph.value(input.tensor).producer;
  if (op.contains.empty() || !producer.valid() || work_.graph.node(producer).op->name != op.contains) {
    return;
  }
  const Span made = work_.graph.node(producer).span;
  const std::string_view file = sources_.text(made.file);
  const std::string_view call = sources_.text(made);
  const size_t before = file.find_last_not_of(" \n", made.begin - 1);
  const bool is_stage = before != std::string_view::npos && before > 0 && file.substr(before - 1, 2) == "->";
  const bool has_label = file.substr(made.end).starts_with(" as ");
  Fix fix{fmt::format("leave `{}` out: the loss takes logits", op.contains)};
  if (is_stage && !has_label) {
    const auto from = static_cast<uint32_t>(file.find_last_not_of(" \n", before - 2) + 1);
    fix = replacement(fix.title, {made.file, from, made.end}, "");
  } else if (!is_stage && call.ends_with(')') && call.find(',') == std::string_view::npos) {
    const size_t open = call.find('(') + 1;
    fix = replacement(fix.title, made, std::string(call.substr(open, call.size() - 1 - open)));
  }
  report(warning("XG0310", made, {"`{}` contains `{}`, which is applied twice here", op.name, op.contains},
                 "what the loss gets", {std::move(fix)})
             .also(at, "applies it again"));
}

}  // namespace xrun::lang
