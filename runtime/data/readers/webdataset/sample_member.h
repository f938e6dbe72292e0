// Finds the member of a sample that a field of the `webdataset` reader names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "runtime/formats/records/tar.h"

namespace xrun::runtime {

// A sample as it was seen when its shard was opened.
struct SeenSample {
  const std::string& path;  // path of its shard
  size_t number = 0;        // in its shard
  Bytes begin = 0;
  int64_t label = 0;  // SampleLabels
};

// The error XG0441: the sample is not the one that was seen, since the shard changed or the index is wrong.
Error sample_changed(const SeenSample& sample);

// The key of the sample. Errors: XG0441; those of TarReader.
Result<std::string> key_of(TarBytes& bytes, const SeenSample& sample);

// Finds the member that `field` names: a member with this extension or, for `image`, the picture of the sample. If a
// sample has several pictures, those with a plain extension (`png`, not `seg.png`) come first. `bytes` end with the
// sample. Errors, to which the caller adds the sample's name: XG0412 there is no such member, or several pictures; for
// the field `cls`, always an error, since labels of valid members are known; XG0441; those of TarReader.
Result<TarMember> find_member(TarBytes& bytes, const SeenSample& sample, std::string_view field);

}  // namespace xrun::runtime
