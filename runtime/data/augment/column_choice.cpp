// Tests: tests/runtime/data/augment/transform_test.cpp, tests/runtime/data/readers/csv_test.cpp
#include "runtime/data/augment/column_choice.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <numeric>
#include <unordered_map>

#include "graph/base/errors.h"
#include "graph/base/nearest.h"

namespace xrun::runtime {
namespace {

// The columns of a table by name; of columns with one name the first.
class NamedColumns {
 public:
  explicit NamedColumns(std::span<const CsvColumn> columns) : columns_(columns) {
    for (size_t c = 0; c < columns.size(); ++c) {
      if (!columns[c].name.empty()) {
        places_.emplace(columns[c].name, static_cast<int64_t>(c));
      }
    }
  }

  Result<int64_t> find(const std::string& name) const {
    if (const auto found = places_.find(name); found != places_.end()) {
      return found->second;
    }
    std::vector<std::string> names;
    std::ranges::transform(columns_, std::back_inserter(names), &CsvColumn::name);
    std::erase(names, "");
    return content_error("XG0413", {"the table has no column `{}`", name},
                         names.empty() ? "say that its first line holds names: csv(..., header=true)"
                                       : nearest_names(name, names, "the first line of the table has them"));
  }

 private:
  std::span<const CsvColumn> columns_;
  std::unordered_map<std::string, int64_t> places_;
};

Result<std::vector<int64_t>> positions_of(const CallSpec& call, std::span<const CsvColumn> columns) {
  const AttrValue& chosen = *call.args.find(call.name == "column" ? "index" : "range");
  if (const auto* position = std::get_if<int64_t>(&chosen)) {
    return std::vector<int64_t>{*position};
  }
  if (const auto* range = std::get_if<std::vector<int64_t>>(&chosen)) {
    std::vector<int64_t> positions(static_cast<size_t>((*range)[1] - (*range)[0]));
    std::iota(positions.begin(), positions.end(), (*range)[0]);
    return positions;
  }
  const auto* several = std::get_if<TextList>(&chosen);
  const NamedColumns known(columns);
  std::vector<int64_t> positions;
  for (const std::string& name : several != nullptr ? *several : TextList{std::get<std::string>(chosen)}) {
    XRUN_ASSIGN(const int64_t position, known.find(name));
    positions.push_back(position);
  }
  return positions;
}

// The delimiter that the name and the first texts of a table's only column suggest; 0: they suggest none.
char likely_delimiter(const CsvColumn& only) {
  std::string seen = only.name;
  for (size_t i = 0; i < std::min<size_t>(only.texts.size(), 10); ++i) {
    seen += only.texts[i];
  }
  for (const std::string_view likely : {";\t|,", " "}) {
    if (const size_t at = seen.find_first_of(likely); at != std::string::npos) {
      return seen[at];
    }
  }
  return '\0';
}

}  // namespace

bool selects_columns(const CallSpec& call) { return call.name == "column" || call.name == "columns"; }

Result<ColumnChoice> choose_columns(const CallSpec& call, const TensorType& target,
                                    std::span<const CsvColumn> columns) {
  ColumnChoice chosen;
  auto found = positions_of(call, columns);
  const bool lacks = !found.ok() || std::ranges::any_of(*found, [&](int64_t c) { return c >= std::ssize(columns); });
  if (const char likely = columns.size() == 1 && lacks ? likely_delimiter(columns[0]) : '\0'; likely != '\0') {
    return content_error("XG0409", "the table has only one column",
                         {"its lines contain another delimiter: write csv(..., delimiter=\"{}\")",
                          likely == '\t' ? std::string("\\t") : std::string(1, likely)});
  }
  XRUN_ASSIGN(chosen.positions, std::move(found));
  for (const int64_t position : chosen.positions) {
    if (position >= std::ssize(columns)) {
      return chosen;  // the type of the row shows whether the columns exist
    }
    const CsvColumn& column = columns[static_cast<size_t>(position)];
    if (!column.name.empty()) {
      chosen.names.push_back(column.name);
    }
    if (column.fault.empty()) {
      continue;
    }
    if (call.name == "columns" || target.classes == 0) {
      return content_error("XG0412", column.fault, column.help);
    }
    chosen.texts = column.texts;
  }
  if (chosen.names.size() != chosen.positions.size()) {
    chosen.names.clear();
  }
  return chosen;
}

}  // namespace xrun::runtime
