// Tests: tests/runtime/data/augment/transform_test.cpp, tests/runtime/data/augment/ngrams_test.cpp
#include "graph/settings/column_types.h"

#include <algorithm>

#include "graph/base/errors.h"
#include "graph/settings/data_arguments.h"

namespace xrun {
namespace {

Status check_row(const Field& input, std::string_view stage, int64_t end) {
  if (input.encoded || input.type.rank() != 2 || input.type.dtype != DType::kF64) {
    return content_error("XG0409",
                         {"`{}` needs the row of a table, but `{}` is {}", stage, input.name, to_text(input.type)},
                         "use it on a csv source, before other stages");
  }
  const int64_t width = input.type.dims[1];
  if (width != 0 && end > width) {
    return content_error("XG0409", {"`{}` asks for column {} of {}", stage, end - 1, width},
                         "columns are counted from 0");
  }
  return {};
}

}  // namespace

// The type of a text column's class numbers. Their count is known only after the table has been opened.
Result<TensorType> class_of_text(const AugmentDef&, const Field& input, const Attrs&) {
  const DType dtype = input.type.dtype;
  if (input.name != "row" || input.encoded || input.type.rank() != 1 ||
      (dtype != DType::kF64 && dtype != DType::kI64)) {
    return content_error("XG0409",
                         {"`as_class` needs one column of a table, but `{}` is {}", input.name, to_text(input.type)},
                         "put it directly after `column`: column(\"id\") -> as_class");
  }
  return per_sample(DType::kI64, {});
}

Result<TensorType> columns_of(const AugmentDef& def, const Field& input, const Attrs& args) {
  if (const auto* names = std::get_if<TextList>(args.find("range"))) {
    XRUN_TRY(check_row(input, def.name, 0));
    for (auto name = names->begin(); name != names->end(); ++name) {
      if (std::find(names->begin(), name, *name) != name) {
        return content_error("XG0413", {"`{}` names the column `{}` twice", def.name, *name}, "leave one of them out");
      }
    }
    return per_sample(DType::kF32, {std::ssize(*names)});
  }
  XRUN_TRY(check_interval(args, "range", kMostColumns));
  const auto& range = args.integers("range");
  XRUN_TRY(check_row(input, def.name, range[1]));
  return per_sample(DType::kF32, {range[1] - range[0]});
}

Result<TensorType> column_of(const AugmentDef& def, const Field& input, const Attrs& args) {
  if (std::holds_alternative<std::string>(*args.find("index"))) {
    XRUN_TRY(check_row(input, def.name, 0));
    return per_sample(DType::kI64, {});
  }
  XRUN_TRY(check_row(input, def.name, args.integer("index") + 1));
  return per_sample(input.type.dtype, {});
}

Result<TensorType> hashed_ngrams(const AugmentDef& def, const Field& input, const Attrs& args) {
  if (input.encoded || input.type.rank() != 2 || input.type.dtype != DType::kU8) {
    return content_error("XG0409", {"`{}` needs a text, but `{}` is {}", def.name, input.name, to_text(input.type)},
                         "use it on the field `text` of a text source, before other stages");
  }
  for (const std::string_view name : {"chars", "words"}) {
    if (args.has(name) && !std::holds_alternative<std::vector<int64_t>>(*args.find(name))) {
      return out_of_range(name, to_text(*args.find(name)),
                          {"a whole number, or the smallest and the largest: {}=[2, 6]", name});
    }
    XRUN_TRY(check_ends(args, name, 1, 2));
  }
  if (!args.has("chars") && !args.has("words")) {
    return content_error("XG0413", {"`{}` has neither `chars` nor `words`", def.name},
                         "say which n-grams to take: chars=[3, 6], or words=[1, 2], or both");
  }
  return per_sample(DType::kI32, {args.integer("length")}, args.integer("rows"));
}

}  // namespace xrun
