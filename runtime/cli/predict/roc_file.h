// The ROC curves of `eval --roc`: how many pairs of one class and of different classes each threshold accepts
// (docs/reference/formats.md, "ROC curves").
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/train/events/verified_pairs.h"

namespace xrun::cli {

// Checks before the evaluation whether curves can be written to `path`, which is FILE.json or FILE.svg. Errors: XG0906
// another extension; XG0901 the path holds other content, which would be overwritten.
Status check_roc_path(const std::string& path);

// Writes one curve for each metric: all points as JSON, or a picture whose axis of FARs is logarithmic. Errors: XG0901;
// an existing file then keeps its content.
Status write_roc(const std::string& path, const std::vector<runtime::VerifiedPairs>& verified);

}  // namespace xrun::cli
