// The `webdataset` reader: samples in tar shards, as the library webdataset writes them.
#pragma once

#include <memory>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Samples: consecutive members with one key are a sample (runtime/data/readers/webdataset/shard_samples.h); they are
// numbered in the order of the shards (runtime/data/readers/webdataset/shard_paths.h). Positions and labels come from
// the shard's index or, without a usable index, from the headers of all members; contents are read when they are
// needed. Memory: 8 bytes a sample, 12 in shards with labels of 2^31 and more.
//
// Fields: `image`, the only member with the extension of a picture format, whatever it is; `jpg`, `jpeg`, `png` and
// `webp`, the member with that extension, all encoded; `cls`, the label of the member `.cls` as i64; `key`, a text.
// The classes are those of the file of names next to the shards (runtime/formats/records/class_names.h); without one,
// there are as many as the largest label plus one. A sample that lacks the member that is read is broken, as is
// one with several pictures when `image` is read.
//
// Errors: XG0401; XG0412 a broken or compressed shard, or a broken file of names; XG0402 a label without a name; XG0413
// a faulty pattern. `read` also gives XG0441 if the label that it finds is not that of the index.
Result<std::unique_ptr<Reader>> open_webdataset(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
