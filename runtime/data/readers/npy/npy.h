// The `npy` reader: samples and labels in arrays of NumPy, in .npy files or in archives .npz.
#pragma once

#include <memory>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Fields: `value`, a sample of the array in the shape that `layout` says; and `label`, if `labels` names an array.
// Elements are given as u8 (u8, bool), i32 or i64 (whole numbers in samples of at most one dimension), f64 (f64 in such
// samples), and otherwise f32. Samples are read from the file when they are needed; compressed members of archives and
// labels are kept in memory. Errors: XG0401, XG0402, XG0412; XG0413 an argument does not fit the files.
Result<std::unique_ptr<Reader>> open_npy(const SourceSpec& spec, StopFlag stop);
// Reads all labels, since they determine the classes, but of the values only headers.
Result<std::unique_ptr<Reader>> open_npy_header(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
