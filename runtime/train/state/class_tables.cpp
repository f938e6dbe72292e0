#include "runtime/train/state/class_tables.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "graph/layouts/class_rows.h"

namespace xrun::runtime {

const ClassTable* find_table(const ClassTables& tables, std::string_view input) {
  const auto found = std::ranges::find(tables, input, &ClassTable::input);
  return found == tables.end() ? nullptr : &*found;
}

const ClassTable* table_for(const ClassTables& tables, const ClassTables& own, std::string_view input) {
  if (const ClassTable* table = find_table(tables, input)) {
    return table;
  }
  const auto is_without = [](const ClassTables& others) {
    return [&others](const ClassTable& table) { return find_table(others, table.input) == nullptr; };
  };
  const auto left = std::ranges::find_if(tables, is_without(own));
  const bool is_only_one = std::ranges::count_if(own, is_without(tables)) == 1 && left != tables.end() &&
                           std::ranges::count_if(tables, is_without(own)) == 1;
  return is_only_one ? &*left : nullptr;
}

const std::vector<std::string>& names_in(const ClassTables& tables, std::string_view input) {
  static const std::vector<std::string> kNone;
  const ClassTable* table = find_table(tables, input);
  return table == nullptr ? kNone : table->names;
}

std::vector<int64_t> positions_of(const std::vector<std::string>& from, const std::vector<std::string>& to) {
  std::unordered_map<std::string_view, int64_t> places;
  places.reserve(to.size());
  for (const std::string& name : to) {
    places.emplace(name, std::ssize(places));
  }
  std::vector<int64_t> positions;
  positions.reserve(from.size());
  for (const std::string& name : from) {
    const auto found = places.find(name);
    positions.push_back(found == places.end() ? -1 : found->second);
  }
  return positions;
}

ClassTables of_graph(ClassTables tables, const Graph& graph) {
  const auto rows = class_rows(graph);
  const auto is_label = [](const ClassRows& one) { return one.kind != ClassRows::kEmbedding; };
  const auto label = std::ranges::find_if(rows, is_label);
  const auto input = std::ranges::find_if(graph.inputs, [&](const NamedValue& one) {
    return label != rows.end() ? one.name == label->input : graph.value(one.value).type.classes > 0;
  });
  std::erase_if(tables, [&](ClassTable& table) {
    if (table.input.empty() && input != graph.inputs.end()) {
      table.input = input->name;
    }
    return table.input.empty();
  });
  return tables;
}

ClassTable renamed(ClassTable table, const std::vector<MovedClass>& moved) {
  std::map<std::string_view, std::string_view> now;
  for (const MovedClass& one : moved) {
    if (one.input.empty() || one.input == table.input) {
      now.emplace(one.from, one.to);
    }
  }
  for (std::string& name : table.names) {
    // The loop ends, since renamings cannot form a cycle (lang/lower/lower_classes.cpp).
    for (auto at = now.find(name); at != now.end(); at = now.find(name)) {
      name = at->second;
    }
  }
  return table;
}

}  // namespace xrun::runtime
