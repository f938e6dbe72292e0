// The `idx` reader: pictures and labels in a pair of IDX files (MNIST), which may be compressed by gzip.
#pragma once

#include <memory>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Fields: `pixels` [1, H, W], u8 or, if the file has another type, f32; and `label`. Errors: XG0401, XG0412.
Result<std::unique_ptr<Reader>> open_idx(const SourceSpec& spec, StopFlag stop);
// Reads only the header of the pictures, but all labels, since they determine the number of classes.
Result<std::unique_ptr<Reader>> open_idx_header(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
