// Embeddings of predicted rows: as lines of text or of JSON, or as files that also hold names and classes
// (docs/reference/formats.md, "Embeddings").
#pragma once

#include <string>

#include "runtime/cli/predict/ranking.h"
#include "runtime/cli/predict/subject.h"
#include "runtime/train/session/session.h"

namespace xrun::cli {

// Checks before the computation whether embeddings can be written to `path`, which is FILE.npy or FILE.npz. Errors:
// XG0905 another extension; XG0901 the path holds other content, which would be overwritten.
Status check_embedding_path(const std::string& path);

// Computes the first floating-point output for the rows of `subject`. With a path, writes it there and returns the
// names of the files; without a path, returns the rows as lines. Errors: XG0903 the model has no such output; XG0408
// all rows are broken; XG0901 the files cannot be written, and no new file is left behind.
Result<std::string> embeddings(runtime::Session& session, Subject& subject, const ClassNames& names,
                               const std::string& path, bool json, runtime::EventSink& events);

// Makes a text a cell of a .tsv file. Backslash, tab, line feed and carriage return are escaped as in C; other control
// characters and bytes that are not UTF-8 become escapes such as \x1B.
std::string tsv_cell(std::string_view text);

}  // namespace xrun::cli
