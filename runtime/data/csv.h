// The `csv` reader: a table, read through column(i), column("name") and columns(a..b).
#pragma once

#include <memory>
#include <string>

#include "runtime/data/reader.h"
#include "runtime/formats/csv.h"

namespace xrun::runtime {

// The table of a file. Errors: XG0401, XG0412, also where the text is longer than options.largest.
Result<CsvTable> read_csv(const std::string& path, const CsvOptions& options);

// Field `row` f64 [columns]. Errors: XG0401, XG0412; XG0413 where the file ends before the rows asked for.
Result<std::unique_ptr<Reader>> open_csv(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
