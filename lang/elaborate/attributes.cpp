// Arguments of operators, readers and optimizers as attributes.
#include <algorithm>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

// A constant as an attribute; nothing where it has no such form.
std::optional<AttrValue> to_attr(const Datum& value) {
  switch (value.kind) {
    case DatumKind::kBool:
      return value.flag;
    case DatumKind::kExact:
    case DatumKind::kReal:
      if (const auto whole = to_int64(value)) {
        return *whole;
      }
      return value.as_double();
    case DatumKind::kString:
    case DatumKind::kSymbol:
      return value.text;
    case DatumKind::kBatch:
      return kBatch;
    case DatumKind::kAuto:
      return std::string("auto");
    case DatumKind::kRange:
    case DatumKind::kList:
    case DatumKind::kTuple:
      break;
    default:
      return std::nullopt;
  }
  const auto& items = *value.items;
  const auto all = [&](auto test) { return std::all_of(items.begin(), items.end(), test); };
  if (all([](const Datum& d) { return to_int64(d) || d.kind == DatumKind::kBatch; })) {
    std::vector<int64_t> list;
    for (const Datum& item : items) {
      list.push_back(item.kind == DatumKind::kBatch ? kBatch : *to_int64(item));
    }
    return list;
  }
  if (all([](const Datum& d) { return d.plain_number(); })) {
    std::vector<double> list;
    for (const Datum& item : items) {
      list.push_back(item.as_double());
    }
    return list;
  }
  if (all([](const Datum& d) { return d.kind == DatumKind::kString || d.kind == DatumKind::kSymbol; })) {
    std::vector<std::string> list;
    for (const Datum& item : items) {
      list.push_back(item.text);
    }
    return list;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Attrs> Evaluator::attributes(const Signature& signature, const std::vector<BoundArg>& bound) {
  Attrs attrs;
  for (const BoundArg& arg : bound) {
    const Datum& value = arg.value();
    if (takes_tensor(*arg.param) || value.kind == DatumKind::kTensor || value.kind == DatumKind::kNone) {
      continue;
    }
    const auto attr = to_attr(value);
    if (!attr) {
      report(with_signature(
          fault("XG0205", value.span.valid() ? value.span : arg.span,
                fmt::format("`{}` of `{}` cannot be {}", arg.param->name.text, signature.name, kind_text(value)), "",
                {"write a number, a string, true or false, or a list of numbers or of strings"}),
          signature));
      return std::nullopt;
    }
    // A whole number where a float is declared stays a float, so that equal calls print alike.
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
