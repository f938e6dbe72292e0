// Checks the value of an argument against the type of its parameter, and converts it.
// Tests: tests/lang/check_golden_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

// Reports a fractional number for a parameter that takes whole numbers.
Diagnostic not_whole(const std::string& what, const Datum& value, Span at, std::string_view written) {
  const double real = value.as_double();
  const Text message{"{} is not a whole number: {}", what, to_text(value)};
  const Text label{"= {:.6g}", real};
  const auto below = to_int64(std::floor(real));
  if (below && value.span == at && written.find_first_not_of("0123456789._") == std::string_view::npos) {
    return fault("XG0312", at, message, label,
                 replacement(fmt::format("write {} or {}", *below, *below + 1), at, std::to_string(*below)));
  }
  // The fix rounds the whole argument. A default has no text in the call that could be edited.
  const bool divides =
      value.kind == DatumKind::kExact && value.span == at && written.find('/') != std::string_view::npos;
  return fault("XG0312", at, message, label,
               divides ? replacement("say how to round: `floor(..)` is the other way", at, {"ceil({})", written})
                       : Fix{"say how to round: `//`, `ceil(..)` or `floor(..)`"})
      .note("`/` is exact");
}

// Accepts one number for both directions of an image, or a list of two. A single number becomes a list of two equal
// ones.
bool accept_pair(Datum& value) {
  const auto whole = [](Datum& number) {
    const std::optional<int64_t> real = number.kind == DatumKind::kReal ? to_int64(number.real) : std::nullopt;
    if (real && number.plain_number()) {
      const Span span = number.span;
      number = make_whole(*real);
      number.span = span;
    }
    return number.plain_number() && to_int64(number).has_value();
  };
  const bool is_list = value.kind == DatumKind::kList || value.kind == DatumKind::kTuple;
  std::vector<Datum> sides = is_list ? *value.items : std::vector<Datum>{value, value};
  if (sides.size() != 2 || !whole(sides[0]) || !whole(sides[1])) {
    return false;
  }
  const Span span = value.span;
  value = make_items(DatumKind::kList, std::move(sides));
  value.span = span;
  return true;
}

// The constant argument of a call, and the parameter whose type it must have.
struct ConstantArgument {
  Evaluator& evaluator;
  const Signature& signature;
  const Param& param;
  Datum& value;
  Span at;

  // These functions return whether the value has the parameter's type. They convert it then, and report it otherwise.
  bool accept() const;
  bool accept_whole() const;
  bool accept_number() const;
  bool accept_list(std::string_view type) const;
  bool accept_keys() const;
  bool expects(std::string_view wanted) const;  // reports the value and returns false
  std::string what() const { return fmt::format("`{}` of `{}`", param.name.text, signature.name); }
};

bool ConstantArgument::expects(std::string_view wanted) const {
  const bool has_unit = value.number() && value.dimension != Dimension::kPlain;
  evaluator.report(with_signature(
      fault(has_unit ? "XG0107" : "XG0205", at, {"{} expects {}, but gets {}", what(), wanted, kind_text(value)}, "",
            {has_unit ? "leave the unit out" : fmt::format("write {} here", wanted)}),
      signature));
  return false;
}

bool ConstantArgument::accept_whole() const {
  if (value.plain_number() && !value.whole()) {
    const double real = value.as_double();
    if (const std::optional<int64_t> whole = to_int64(real); whole && value.kind == DatumKind::kReal) {
      value = make_whole(*whole);
      return true;
    }
    evaluator.report(not_whole(what(), value, at, evaluator.sources().text(at)));
    return false;
  }
  if (value.whole() && !to_int64(value)) {
    evaluator.refuse("XG0214", at, {"{} cannot be {}", what(), to_text(value)}, "it does not fit into 64 bits",
                     {"write a smaller number"});
    return false;
  }
  return to_int64(value) ? true : expects("a whole number");
}

bool ConstantArgument::accept_number() const {
  if (!value.plain_number()) {
    return expects("a number");
  }
  const Span span = value.span;
  value = make_real(value.as_double());
  value.span = span;
  return true;
}

// Accepts a list, or one item, which becomes a list.
bool ConstantArgument::accept_list(std::string_view type) const {
  if (value.kind == DatumKind::kList) {
    return true;
  }
  if ((type == "spans" ? value.number() : value.plain_number()) || value.kind == DatumKind::kString ||
      value.kind == DatumKind::kBatch) {
    const Span span = value.span;
    value = make_items(DatumKind::kList, {value});
    value.span = span;
    return true;
  }
  return expects(type == "spans" ? "spans of training such as [5 epochs, 8 epochs]" : "a list");
}

// Accepts a range of positions, a name, or a list of names. One name becomes a list.
bool ConstantArgument::accept_keys() const {
  if (value.kind == DatumKind::kString) {
    const Span span = value.span;
    value = make_items(DatumKind::kList, {value});
    value.span = span;
  }
  const auto all = [&](DatumKind kind, const auto& is_good) {
    return value.kind == kind && !value.items->empty() && std::ranges::all_of(*value.items, is_good);
  };
  return all(DatumKind::kRange, [](const Datum& end) { return to_int64(end).has_value(); }) ||
         all(DatumKind::kList, [](const Datum& name) { return name.kind == DatumKind::kString; }) ||
         expects("a range of whole numbers such as 0..64, or names in quotes");
}

bool ConstantArgument::accept() const {
  const std::string_view type = param.type.name.text;
  if (type == "int") {
    return accept_whole();
  }
  if (type == "pair") {
    return accept_pair(value) || expects("a whole number, or two such as [1, 7]");
  }
  if (type == "float") {
    return accept_number();
  }
  if (type == "bool") {
    return value.kind == DatumKind::kBool || expects("true or false");
  }
  if (type == "str") {
    return value.kind == DatumKind::kString || expects("a string");
  }
  if (type == "key") {
    return value.kind == DatumKind::kString || to_int64(value) || expects("a whole number, or a name in quotes");
  }
  if (type == "keys") {
    return accept_keys();
  }
  if (type == "range") {
    if (value.kind != DatumKind::kRange || !to_int64((*value.items)[0]) || !to_int64((*value.items)[1])) {
      return expects("a range of whole numbers such as 0..64");
    }
    return true;
  }
  if (type == "list" || type == "spans" || type == "dims") {
    return accept_list(type);
  }
  return true;
}

}  // namespace

bool Evaluator::accept(const Signature& signature, const Param& param, Datum& value, Span at, Scope& env) {
  if (takes_tensor(param)) {
    if (scalars_ != nullptr && (value.kind == DatumKind::kScalar || value.plain_number())) {
      return true;  // the argument is an element of a tensor
    }
    if (value.kind == DatumKind::kNone && param.value.valid()) {
      return true;  // the argument is a tensor that may be left out
    }
    return match(*signature.ast, param.type, value, env, at, param.name.text, signature.name);
  }
  if (param.type.name.text == "dims") {
    return accept_scalar(signature, param, value, at) && accept_dims(signature, value, at, env);
  }
  return accept_scalar(signature, param, value, at);
}

// Accepts dimensions of a tensor that has as many elements as the first parameter. If one of them is -1, it is computed
// from the others. It is replaced by a number here, since operators read -1 as N.
bool Evaluator::accept_dims(const Signature& signature, Datum& value, Span at, const Scope& env) {
  std::vector<Datum> items = *value.items;
  const auto first = env.locals.find(signature.params[0].name.text);
  const int64_t elements = first != env.locals.end() ? type_of(first->second.value).row_elements() : 0;
  Datum* inferred = nullptr;
  Int128 others = 1;
  for (Datum& item : items) {
    const Span here = item.span.valid() ? item.span : at;
    const auto whole = to_int64(item);
    if (whole == -1 && &item == &items[0]) {
      return refuse("XG0303", here, "the first dimension is the batch, `N`, and -1 is one of the others", "",
                    replacement("write `N`", here, "N")),
             false;
    }
    if (whole == -1 && inferred != nullptr) {
      return refuse("XG0303", here, "only one dimension can follow from the others", "a second -1",
                    {"write a number for one of the two"}),
             false;
    }
    if (item.kind == DatumKind::kBatch) {
      continue;
    }
    if (whole == -1) {
      inferred = &item;
    } else if (!whole || *whole < 1) {
      return refuse("XG0303", here, {"a dimension is N, a number of 1 or more, or -1, not {}", to_text(item)}, "",
                    {"write one of them"}),
             false;
    } else {
      others = std::min<Int128>(others * *whole, Int128{1} << 62);
    }
  }
  if (inferred == nullptr) {
    return true;
  }
  if (elements % others != 0) {
    return refuse("XG0301", inferred->span.valid() ? inferred->span : at,
                  {"{} elements a sample cannot be divided by {}", elements, static_cast<int64_t>(others)},
                  "no whole number fits here",
                  {"choose the other dimensions so that their product divides the number of elements"}),
           false;
  }
  const Span written = inferred->span;
  *inferred = make_whole(elements / others);
  inferred->span = written;
  const Span span = value.span;
  value = make_items(DatumKind::kList, std::move(items));
  value.span = span;
  return true;
}

bool Evaluator::accept_scalar(const Signature& signature, const Param& param, Datum& value, Span at) {
  const ConstantArgument argument{*this, signature, param, value, at};
  if (value.kind == DatumKind::kTensor || value.kind == DatumKind::kScalar) {
    const bool is_open = !param.type.span.valid() && (!param.value.valid() || signature.is_pointwise);
    if (is_open && (value.kind == DatumKind::kScalar || scalars_ == nullptr)) {
      return true;
    }
    return argument.expects(is_open ? "a number, since one function is an argument of another" : "a constant");
  }
  // `none` is a valid value if it is the default.
  const bool takes_none = param.value.valid() && (*signature.ast)[param.value].kind == ExprKind::kNone;
  if (value.kind == DatumKind::kNone && (takes_none || !param.type.span.valid())) {
    return true;
  }
  if (value.kind == DatumKind::kNone && is_symbol_type(param.type.name.text)) {
    return argument.expects("a name");
  }
  return argument.accept();
}

}  // namespace xrun::lang
