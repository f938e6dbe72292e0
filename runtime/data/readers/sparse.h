// The `sparse` reader: rows of labels and features in the text format of the Extreme Classification Repository.
#pragma once

#include <cstdint>
#include <memory>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// The largest number of features that become a dense row without `hash`.
inline constexpr int64_t kMostDenseFeatures = 65'536;

// Fields: `features` f32 [features], or [hash] with the argument `hash`; and `label`, -1 for a row without labels. Each
// line after the first is a row. A row is read from the file when it is needed; the places of the rows and their first
// labels are kept in memory, 12 bytes a row. Errors: XG0401; XG0412 the lines are not those that the first line counts;
// XG0413 rows have several labels and `label` is not given, or there are too many features for a dense row.
Result<std::unique_ptr<Reader>> open_sparse(const SourceSpec& spec, StopFlag stop);
// Reads the first line and the first rows, and `read` those up to the row that it needs; with label="only" all rows,
// since only some of them are samples.
Result<std::unique_ptr<Reader>> open_sparse_header(const SourceSpec& spec, StopFlag stop);

// The place of a feature among `size` sums, and its sign. The numbers are draws of Philox (graph/base/random.h), keyed
// by the feature: equal for all runs and files.
// Source: Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", ICML 2009.
struct HashedFeature {
  int64_t index = 0;
  float sign = 1;
};
HashedFeature hash_feature(int64_t feature, int64_t size);

}  // namespace xrun::runtime
