// The `pairs` reader: verification sets of pairs of pictures, which show the same person or two.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Opens the file `path`: a verification set of InsightFace (runtime/data/readers/pairs/pair_set.h), or a list of pairs
// (runtime/data/readers/pairs/pair_list.h), whichever its first bytes show. Paths of a list start at `root`, or without
// it at the folder of the list; the list may be compressed by gzip. With the argument `templates`, pairs are pairs of
// templates (runtime/data/readers/pairs/templates.h), and the rest of this comment does not apply.
//
// Samples: a set of n pairs has 2n samples; pair i, counted from 0, has the samples 2i and 2i + 1. There are no labels:
// classes() is 0.
//
// Fields: `jpeg` (encoded; also PNG and others), and `same`, the bool of the sample's pair. `file` is another name of
// `jpeg`: with it, a binding also fits sources of `folder`. The first picture of the 17th pair is named
// "lfw.bin pair 17, picture 1 (bins[32])".
//
// Memory: only places of pictures, or the text of a list, are held; pictures are read when they are needed, also after
// open_header, which opens the source in the same way. Errors: XG0401, also if none of the files of a list that are
// examined exists; XG0407 the pickle would run code; XG0412. A picture that is missing or cannot be decoded is a broken
// sample.
Result<std::unique_ptr<Reader>> open_pairs(const SourceSpec& spec, StopFlag stop);

// A warning if all pairs are of one kind, of which `same` of `pairs` show the same person (XG0443).
std::vector<Error> warn_of_one_kind(int64_t same, int64_t pairs);

}  // namespace xrun::runtime
