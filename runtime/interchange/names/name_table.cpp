#include "runtime/interchange/names/name_table.h"

#include <fmt/format.h>

#include "runtime/interchange/names/name_parser.h"

namespace xrun::runtime {

bool NameTable::matches_all() const {
  return !rules.empty() && rules[0].from[0].parts.size() == 1 && !rules[0].from[0].parts[0].capture.empty() &&
         rules[0].from[0].parts[0].before.empty() && rules[0].from[0].parts[0].after.empty();
}

std::optional<NameTable> parse_names(std::string name, const SourceMap& sources, int32_t file,
                                     Diagnostics& diagnostics) {
  const int before = diagnostics.error_count();
  NameTable table{.name = std::move(name)};
  if (sources.text(file).size() > kMostTableBytes) {
    diagnostics.add(name_fault({file, 0, 0}, "a name table of more than 1 MiB", "this file",
                               "name the file with the table: --names FILE.names"));
    return std::nullopt;
  }
  read_lines(name_tokens(sources, file, diagnostics), table, diagnostics);
  if (table.lines() > kMostTableRules) {
    diagnostics.add(
        name_fault(table.rules.empty() ? Span{file, 0, 0} : table.rules.back().span, "too many lines", "after this one",
                   fmt::format("write at most {} lines; `within` counts once for each pair", kMostTableRules)));
  }
  table.title = table.title.empty() ? table.name : table.title;
  return diagnostics.error_count() > before ? std::nullopt : std::optional(std::move(table));
}

void extend(NameTable& table, const NameTable& base) {
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(table.drop, base.drop);
  append(table.ignored, base.ignored);
  append(table.rules, base.rules);
  append(table.notes, base.notes);
}

}  // namespace xrun::runtime
