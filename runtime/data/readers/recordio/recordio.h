// The `recordio` reader: pictures with labels in MXNet's files of records (.rec), as im2rec and InsightFace write them.
#pragma once

#include <memory>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Opens the files that `path` names; braces stand for several files ("train-{00..15}.rec"), whose samples follow one
// another. For each file, "train.idx" and "train.lst" next to "train.rec" are read if they exist; `index` and `list`
// name other files, or none if they are "".
//
// Samples: all records with a picture, in the order of the file; with an index, those that it lists. A record with two
// labels and no picture is InsightFace's header or an identity, not a sample. Records are read when they are needed.
//
// Labels: the first label of the record; with a list, that of the list. A list that was not named must agree with the
// records. A list in InsightFace's own form ("1<tab>path<tab>label") is not read.
//
// Classes: those of the file of names next to the records (runtime/formats/records/class_names.h); else `classes`; else
// the first number of the file `property` in the folder; else the largest label plus one, for which the heads of all
// records are read once.
//
// Fields: `jpeg` (encoded), `label` i64, `labels` f32 [labels of a record], `id` i64. Errors: XG0401; XG0412 a file is
// damaged, or an index or list belongs to another file; XG0402 labels that `classes` excludes, or a label far above the
// number of samples; XG0405 a label that f32 does not hold; XG0413 `index` or `list` for several files; kInterrupted.
// Reading a label also gives XG0402 if it is not a whole number or not below the number of classes.
Result<std::unique_ptr<Reader>> open_recordio(const SourceSpec& spec, StopFlag stop);

// Opens the same source, but reads the labels of at most 65,536 records. If that does not suffice, the number of
// classes is unknown: classes() is 0. Without an index the records are visited all the same.
Result<std::unique_ptr<Reader>> open_recordio_header(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
