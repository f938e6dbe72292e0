// The `csv` reader: reads a table, whose columns are selected by column(i), column("name") and columns(a..b) or
// columns("name", ..).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/base/stop.h"
#include "graph/graph.h"
#include "runtime/data/readers/reader.h"
#include "runtime/formats/tables/csv.h"

namespace xrun::runtime {

// Reads the table in a file. Errors: XG0401; XG0412, also if the text is longer than options.largest or the file has
// another format.
Result<CsvTable> read_csv(const std::string& path, const CsvOptions& options);

// Marks the columns to which bindings apply `as_class`, so that open_csv reads them as texts, and those that feed
// `columns` or a float input of the graph, so that it reads them as numbers. Returns the source unchanged if it has
// another reader.
SourceSpec with_bound_columns(SourceSpec spec, const std::vector<DataBinding>& bindings, const Graph& graph);

// Opens the reader. Its field `row` is f64 [columns]; NaN is a missing value. `read` of a row with a fault
// (CsvTable::faults) is XG0412 with column and text. Errors: XG0401, XG0412; XG0413 the file
// has fewer rows than `spec` asks for.
Result<std::unique_ptr<Reader>> open_csv(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
