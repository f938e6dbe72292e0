// Opens a source by the name of its reader; the table of readers is in open_reader.cpp.
#pragma once

#include <memory>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/settings/specs.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Opens a source. Relative paths start at `spec.directory`. Runs on the calling thread and the workers of its arena.
// Errors: XG0401 a file is missing or unreadable, XG0406 no sample, XG0410 a reader of a later version, XG0411 a font
// is missing, XG0412 a file is broken; with the span of the reader call. kInterrupted soon after `stop` is set.
Result<std::unique_ptr<Reader>> open_reader(const SourceSpec& spec, StopFlag stop = nullptr);
// Opens a source only to find its counts, fields, classes and names; skips slow steps. `read` may be called only for
// labels, and for encoded fields of looked_samples, for which it may return only the start.
Result<std::unique_ptr<Reader>> open_header(const SourceSpec& spec);

}  // namespace xrun::runtime
