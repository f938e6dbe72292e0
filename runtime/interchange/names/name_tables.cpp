#include "runtime/interchange/names/name_tables.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/check.h"

namespace xrun::runtime {

NameTable known_table(std::string_view name) {
  const auto texts = name_texts();
  const auto found = std::ranges::find(texts, name, &NameText::name);
  XRUN_CHECK(found != texts.end(), "a name table that is not there");
  SourceMap sources;
  Diagnostics diagnostics;
  auto table =
      parse_names(std::string(name), sources, sources.add(std::string(name), std::string(found->text)), diagnostics);
  XRUN_CHECK(table.has_value(), "a name table of the program has a fault");
  return std::move(*table);
}

std::optional<NameTable> table_of_user(const SourceMap& sources, int32_t file, Diagnostics& diagnostics) {
  auto table = parse_names(sources.path(file), sources, file, diagnostics);
  if (!table || table->like.empty()) {
    return table;
  }
  const auto texts = name_texts();
  if (std::ranges::find(texts, table->like, &NameText::name) == texts.end()) {
    std::vector<std::string_view> names;
    std::ranges::transform(texts, std::back_inserter(names), &NameText::name);
    Diagnostic diagnostic{.code = "XG0940",
                          .message = fmt::format("there is no name table `{}`", table->like),
                          .primary = {{file, 0, 0}, "`like` names it"}};
    diagnostic.fixes.push_back({.title = fmt::format("write one of {}", fmt::join(names, ", "))});
    diagnostics.add(std::move(diagnostic));
    return std::nullopt;
  }
  extend(*table, known_table(table->like));
  return table;
}

}  // namespace xrun::runtime
