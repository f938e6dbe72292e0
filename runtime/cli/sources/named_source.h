// A source of data that a word of the command line names, and the labels of its samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/settings/specs.h"
#include "runtime/cli/console/outcome.h"
#include "runtime/data/readers/reader.h"

namespace xrun::cli {

struct NamedSource {
  std::string call;  // the call of the reader, as a model file writes it
  SourceSpec spec;   // relative paths start at the working directory
};

// Finds the reader for a path, a pattern of shards, or the call of a reader. Errors: those of guess_reader, and faults
// of the call.
Outcome<NamedSource> find_source(const std::string& word);

// The field with the labels of a source; -1 if it has none.
int label_field(const runtime::Reader& reader);

// Reads the label of a sample into `value`. nullopt: the field has another type than a label. Errors: those of
// Reader::read.
Result<std::optional<int64_t>> read_label(const runtime::Reader& reader, int64_t sample, int field,
                                          runtime::FieldValue& value);

}  // namespace xrun::cli
