#include "runtime/data/source_classes.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <unordered_set>

#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "graph/base/utf8.h"

namespace xrun::runtime {
namespace {

bool counts_from_another_number(const DataBinding& binding) {
  return std::ranges::any_of(binding.stages, [](const CallSpec& stage) {
    return stage.name == "as_index" && stage.args.has("first") && stage.args.integer("first") != 0;
  });
}

}  // namespace

std::vector<std::string> class_names_of(const Reader& reader) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < reader.classes(); ++i) {
    names.push_back(reader.class_name(i));
    if (names.back().empty()) {
      return {};
    }
  }
  return names;
}

Result<ClassTable> table_of(const Transform& transform, const DataBinding& binding, const Reader& reader, int field,
                            const std::string& source) {
  ClassTable table{.input = binding.target, .names = transform.class_names()};
  const Field& from = reader.fields()[static_cast<size_t>(field)];
  if (table.names.empty() && from.type.classes > 0 && !counts_from_another_number(binding)) {
    table.names = class_names_of(reader);
  }
  std::unordered_set<std::string_view> seen;
  for (std::string& name : table.names) {
    name = well_formed(name);
    if (!seen.insert(name).second) {
      return content_error("XG0402", {"two classes of the source `{}` are called `{}` in UTF-8", source, name},
                           "give one of them another name, in UTF-8");
    }
  }
  table.named = !table.names.empty();
  return table;
}

Result<std::vector<int64_t>> numbers_in(const ClassTable& trained, const ClassTable& own, const std::string& source) {
  if (trained.named != own.named) {
    const auto kind = [](const ClassTable& table) { return table.named ? "names" : "numbers"; };
    return content_error(
        "XG0402",
        {"the classes of `{}` are {} in the source `{}`, but {} in training", own.input, kind(own), source,
         kind(trained)},
        {"write the {} that training had, or train again{}", kind(trained),
         trained.named ? ": `-> as_class` reads every cell of a column as a name" : " with the names"});
  }
  std::vector<int64_t> numbers = positions_of(own.names, trained.names);
  if (const auto lacking = std::ranges::find(numbers, -1); lacking != numbers.end()) {
    const std::string& name = own.names[static_cast<size_t>(lacking - numbers.begin())];
    return content_error(
        "XG0402", {"`{}`, a class of `{}` in the source `{}`, is not a class of training", name, own.input, source},
        {"{}; correct the name, or train with it", nearest_names(name, trained.names)});
  }
  return numbers;
}

}  // namespace xrun::runtime
