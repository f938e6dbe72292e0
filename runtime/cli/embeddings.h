// Embeddings of predicted rows: lines of text or of JSON, or files that have names and classes, too
// (docs/formats.md, "Embeddings").
#pragma once

#include <string>

#include "runtime/cli/ranking.h"
#include "runtime/cli/subject.h"
#include "runtime/train/session.h"

namespace xrun::cli {

// Whether embeddings may be written to `path`, before they are computed: FILE.npy or FILE.npz. Errors: XG0905 another
// name; XG0901 other content would be lost.
Status check_embedding_path(const std::string& path);

// Computes the first output of real numbers for the rows of `subject`, and writes them to `path`, or gives their lines
// where it is empty. Errors: XG0903 the model has no such output; XG0408 all rows are broken; XG0901 the files cannot
// be written, of which then nothing is left.
Result<std::string> embeddings(runtime::Session& session, Subject& subject, const ClassNames& names,
                               const std::string& path, bool json, runtime::EventSink& events);

// A text as a cell of a .tsv file: backslash, tab, line feed and carriage return as in C, other control characters and
// bytes that are no UTF-8 as \x1B.
std::string tsv_cell(std::string_view text);

}  // namespace xrun::cli
