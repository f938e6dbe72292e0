#include "runtime/interchange/import/candidates.h"

#include <algorithm>
#include <span>

#include "graph/base/tensor_name.h"
#include "runtime/interchange/import/model_names.h"

namespace xrun::runtime {
namespace {

std::string rest_of(std::span<const std::string_view> parts) {
  std::string rest;
  for (const std::string_view part : parts) {
    rest += rest.empty() ? "" : ".";
    rest += part;
  }
  return rest;
}

}  // namespace

NamedTensor look_up(const NameTable& table, std::string_view name) {
  const std::vector<std::string_view> all = parts_of_name(name);
  std::span<const std::string_view> parts(all);
  while (parts.size() > 1 && std::ranges::find(table.drop, parts[0]) != table.drop.end()) {
    parts = parts.subspan(1);
  }
  NamedTensor named;
  Captures captures;
  named.ignored = std::ranges::any_of(
      table.ignored, [&](const NamePattern& pattern) { return match(pattern, parts, captures).has_value(); });
  for (const NameRule& rule : table.rules) {
    for (size_t source = 0; source < rule.from.size() && !named.ignored; ++source) {
      captures.clear();
      const auto matched = match(rule.from[source], parts, captures);
      if (!matched) {
        continue;
      }
      Candidate candidate{.rule = &rule, .source = source, .targets = {}};
      const std::string rest = rest_of(parts.subspan(*matched));
      for (const NameTarget& to : rule.to) {
        if (const auto path = fill(to, captures)) {
          candidate.targets.push_back({below(*path, rest), to.classes});
        }
      }
      if (candidate.targets.size() == rule.to.size()) {
        named.candidates.push_back(std::move(candidate));
      }
    }
  }
  return named;
}

}  // namespace xrun::runtime
