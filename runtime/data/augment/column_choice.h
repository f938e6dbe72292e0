// The columns that a binding to a table reads: the positions, names and texts of those that its first stage selects.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/settings/specs.h"
#include "graph/types/tensor_type.h"
#include "runtime/formats/tables/csv.h"

namespace xrun::runtime {

struct ColumnChoice {
  std::vector<int64_t> positions;  // in the order in which the binding reads them
  std::vector<std::string> names;  // index: place in `positions`; empty: the columns have no names
  std::vector<std::string> texts;  // the texts of the only column, if it is a column of texts
};

// Whether the stage selects columns: `column` or `columns`.
bool selects_columns(const CallSpec& call);

// Returns the columns that a stage `column` or `columns` selects from a table, for an input of type `target`. An empty
// `columns` is a row without a table; its columns have no names. Errors, without a place: XG0413 there is no column of
// this name; XG0409 the table has one column, since it has another delimiter; XG0412 a column of texts is used as
// numbers.
Result<ColumnChoice> choose_columns(const CallSpec& call, const TensorType& target, std::span<const CsvColumn> columns);

}  // namespace xrun::runtime
