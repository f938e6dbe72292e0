// The `list` reader: pictures that a text file lists with their labels.
#pragma once

#include <memory>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Opens a list, in one of these forms:
//
//   path<delimiter>label      each line names a picture (PLSC v2, tables of paths). The label follows the last
//                             delimiter. In tables with commas and the like, a path may be in "double quotes".
//   base64<tab>label          each line contains a picture (PLSC v1; also label<tab>base64)
//   name                      each line names a file of lines with base64 (the file_list.txt of PLSC v1)
//
// Paths start at `root`, or without `root` at the folder of the list. With `root` no path may lead out of it. Without
// `root` paths may be absolute or lead anywhere. Files are read when they are needed; one that does not exist is a
// broken sample.
//
// Labels: label_texts.h. Samples are numbered in the order of the lines. All lines are samples, also lines that PLSC v1
// repeats so that all of its parts have the same length.
//
// Fields: `file` (encoded), `label` i64, `name`. Errors, with the line: XG0401, also if none of the files that are
// examined exists; XG0402 labels that are no classes; XG0412 a line of another form, or a path that leaves `root`;
// kInterrupted.
Result<std::unique_ptr<Reader>> open_list(const SourceSpec& spec, StopFlag stop);

// Opens the same source; `read` returns only the start of a picture in a file of its own.
Result<std::unique_ptr<Reader>> open_list_header(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
