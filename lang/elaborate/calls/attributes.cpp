// Converts arguments of operators, readers and optimizers to attributes.
// Tests: tests/lang/check_golden_test.cpp, tests/cases/tables_of_features_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

// Converts all items of a list to one type; nullopt if an item does not convert.
template <class T, class Convert>
std::optional<AttrValue> list_of(const std::vector<Datum>& items, Convert convert) {
  std::vector<T> list;
  for (const Datum& item : items) {
    const std::optional<T> element = convert(item);
    if (!element) {
      return std::nullopt;
    }
    list.push_back(*element);
  }
  return list;
}

std::optional<int64_t> dimension_of(const Datum& value) {
  return value.kind == DatumKind::kBatch ? std::optional(kBatch) : to_int64(value);
}

std::optional<double> number_of(const Datum& value) {
  return value.plain_number() ? std::optional(value.as_double()) : std::nullopt;
}

std::optional<std::string> words_of(const Datum& value) {
  const bool words = value.kind == DatumKind::kString || value.kind == DatumKind::kSymbol;
  return words ? std::optional(value.text) : std::nullopt;
}

// Converts a constant to an attribute; nullopt if no attribute can hold it.
std::optional<AttrValue> to_attr(const Datum& value) {
  if (value.kind == DatumKind::kBool) {
    return value.flag;
  }
  if (value.kind == DatumKind::kAuto) {
    return std::string("auto");
  }
  if (const auto whole = dimension_of(value)) {
    return *whole;
  }
  if (value.number()) {
    return value.as_double();
  }
  if (value.items == nullptr) {
    return words_of(value);
  }
  auto list = list_of<int64_t>(*value.items, dimension_of);
  list = list ? list : list_of<double>(*value.items, number_of);
  return list ? list : list_of<std::string>(*value.items, words_of);
}

// Joins the values of a variadic parameter, which are lists, to one list; nullopt if one of several is not a list.
std::optional<Datum> joined(const std::vector<Datum>& values) {
  if (values.size() == 1) {
    return values.front();
  }
  std::vector<Datum> items;
  for (const Datum& value : values) {
    if (value.kind != DatumKind::kList) {
      return std::nullopt;
    }
    items.insert(items.end(), value.items->begin(), value.items->end());
  }
  Datum all = make_items(DatumKind::kList, std::move(items));
  all.span = values.front().span;
  return all;
}

}  // namespace

std::optional<Attrs> Evaluator::attributes(const Signature& signature, const std::vector<BoundArg>& bound) {
  Attrs attrs;
  for (const BoundArg& arg : bound) {
    if (takes_tensor(*arg.param) || arg.value().kind == DatumKind::kTensor || arg.value().kind == DatumKind::kNone) {
      continue;
    }
    const std::optional<Datum> all = joined(arg.values);
    if (!all) {
      report(with_signature(
          fault("XG0205", arg.span,
                {"`{}` of `{}` cannot be several ranges, or ranges and names", arg.param->name.text, signature.name},
                "", {"give one range, or names only"}),
          signature));
      return std::nullopt;
    }
    const Datum& value = *all;
    // A pair of two equal numbers becomes one number, so that equal calls print alike.
    const bool is_pair = arg.param->type.name.text == "pair" && value.items != nullptr;
    const bool both = is_pair && equal(value.items->front(), value.items->back());
    const auto attr = to_attr(both ? value.items->front() : value);
    if (!attr) {
      report(with_signature(fault("XG0205", value.span.valid() ? value.span : arg.span,
                                  {"`{}` of `{}` cannot be {}", arg.param->name.text, signature.name, kind_text(value)},
                                  "", {"write a number, a string, true or false, or a list of numbers or of strings"}),
                            signature));
      return std::nullopt;
    }
    // A whole number for a float parameter is stored as a float, so that equal calls print alike.
    const auto* whole = std::get_if<int64_t>(&*attr);
    if (whole != nullptr && arg.param->type.name.text == "float") {
      attrs.set(arg.param->name.text, static_cast<double>(*whole));
    } else {
      attrs.set(arg.param->name.text, *attr);
    }
  }
  return attrs;
}

}  // namespace xrun::lang
