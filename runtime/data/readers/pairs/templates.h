// The reader `pairs` with the argument `templates`: pictures of templates, whose pairs are compared.
#pragma once

#include <memory>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Opens the list of pairs `path` and the list of pictures `templates` (runtime/data/readers/pairs/template_set.h).
// Paths of pictures start at `root`, or without it at the folder of the list of pictures.
//
// Samples: the pictures, sorted by template and medium. There are no labels: classes() is 0. Fields: `jpeg` (encoded;
// also PNG and others), also called `file`, and `template`, the number of the sample's template.
//
// Memory: both lists, of at most `most_memory`; pictures are read when they are needed. Errors: those of
// read_template_set; XG0401 none of the pictures that are examined exists. A picture that is missing or cannot be
// decoded is a broken sample.
Result<std::unique_ptr<Reader>> open_templates(const SourceSpec& spec, Bytes most_memory, StopFlag stop);

}  // namespace xrun::runtime
