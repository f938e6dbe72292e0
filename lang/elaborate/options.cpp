// Tests: tests/lang/check_test.cpp
#include "lang/elaborate/options.h"

#include <algorithm>
#include <fmt/format.h>

namespace xrun::lang {
namespace {

void report(Evaluator& evaluator, const char* code, Span at, Text message, Text label, Help help) {
  evaluator.diagnostics().add(fault(code, at, std::move(message), std::move(label), std::move(help)));
}

// Whether the value has the type of the option, which is one of int, float, bool and str; reports another value.
bool has_type(Evaluator& evaluator, const Decl& decl, const Datum& value) {
  const std::string_view type = decl.type_name.text;
  const bool good = type == "int"     ? to_int64(value).has_value()
                    : type == "float" ? value.plain_number()
                    : type == "bool"  ? value.kind == DatumKind::kBool
                                      : value.kind == DatumKind::kString;
  if (type == "int" && value.whole() && !good) {
    report(evaluator, "XG0214", value.span.valid() ? value.span : decl.name.span,
           {"option `{}` cannot be {}", decl.name.text, to_text(value)}, "it does not fit into 64 bits",
           {"write a smaller number"});
    return false;
  }
  if (!good) {
    const std::string_view wanted = type == "int"    ? "a whole number"
                                    : type == "str"  ? "a string"
                                    : type == "bool" ? "true or false"
                                                     : "a number";
    Diagnostic d = fault(
        "XG0205", value.span.valid() ? value.span : decl.name.span,
        {"option `{}` is {}, not {}", decl.name.text, wanted, kind_text(value)}, "",
        {type == "str" ? fmt::format("put it in double quotes; on the command line --set '{}=\"...\"'", decl.name.text)
                       : fmt::format("write {}", wanted)});
    if (value.span != decl.name.span && value.span.valid()) {
      d.secondary.push_back({decl.name.span, "declared here"});
    }
    evaluator.diagnostics().add(std::move(d));
    return false;
  }
  return true;
}

// Reports a value that is not in the range or the list of values that the option may have.
void check_range(Evaluator& evaluator, const SourceFile& file, const Decl& decl, const Datum& value) {
  Scope scope{.file = &file};
  const Datum range = evaluator.eval(file.ast, decl.range, scope);
  if (range.is_error()) {
    return;
  }
  bool inside = false;
  Problem problem;
  if (range.kind == DatumKind::kRange && value.plain_number()) {
    // Both bounds of an option's range are allowed values.
    const Datum& last = (*range.items)[1];
    const Datum low = constant_binary(Op::kGe, value, (*range.items)[0], problem);
    const Datum high = constant_binary(Op::kLe, value, last, problem);
    inside = low.flag && high.flag;
  } else if (range.kind == DatumKind::kList) {
    inside = std::any_of(range.items->begin(), range.items->end(), [&](const Datum& d) { return equal(d, value); });
  } else {
    const bool of_text = range.kind == DatumKind::kRange;
    report(evaluator, "XG0205", range.span,
           of_text ? fmt::format("a range is for numbers, and `{}` is not a number", decl.name.text)
                   : "what an option may be is a range or a list",
           of_text ? "" : "this is " + kind_text(range),
           {of_text ? "write a list: in [\"a\", \"b\"]" : "write in 2 .. 1G, or in [16, 32, 64]"});
    return;
  }
  if (!inside) {
    evaluator.diagnostics().add(fault("XG0214", value.span.valid() ? value.span : decl.name.span,
                                      {"option `{}` cannot be {}", decl.name.text, to_text(value)}, "",
                                      {"keep it in {}", to_text(range)})
                                    .also(range.span, "what it may be"));
  }
}

}  // namespace

void check_option(Evaluator& evaluator, const SourceFile& file, const Decl& decl) {
  const Datum value = evaluator.eval_constant({&file, &decl});
  if (value.is_error()) {
    if (!decl.value.valid() && !decl.has_fault) {
      report(evaluator, "XG0204", decl.name.span, {"option `{}` has no value", decl.name.text}, "",
             {"give it one by --set {}=..., or here after its type", decl.name.text});
    }
    return;
  }
  const std::string_view type = decl.type_name.text;
  if (type.empty()) {
    return;  // the missing value was reported
  }
  const bool known = type == "int" || type == "float" || type == "bool" || type == "str";
  if (!known) {
    report(evaluator, "XG0205", decl.type_name.span, {"an option is an int, float, bool or str, not `{}`", type}, "",
           did_you_mean(type, {"int", "float", "bool", "str"}, decl.type_name.span, {"write one of them"}));
    return;
  }
  if (has_type(evaluator, decl, value) && decl.range.valid()) {
    check_range(evaluator, file, decl, value);
  }
}

}  // namespace xrun::lang
