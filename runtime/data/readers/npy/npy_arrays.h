// Finds the arrays that the arguments of an `npy` source name, and opens them.
#pragma once

#include <optional>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/settings/specs.h"
#include "runtime/formats/tensors/npy_file.h"

namespace xrun::runtime {

// The arrays of one file of samples.
struct NpyArrays {
  NpyFile values;
  std::optional<NpyFile> labels;  // in the archive of the values, or in a file of their own
};

// Opens the arrays of every path of the source, in order; `extent` is that of the values. A text of `labels` that ends
// in .npy or .npz is a file, any other the name of an array in the archive of the values. Each array of labels has as
// many samples as its values. Errors: XG0401; those of NpyFile; XG0412 counts differ; XG0413 an archive has no such
// array, or it is not said which one.
Result<std::vector<NpyArrays>> open_npy_arrays(const SourceSpec& spec, NpyFile::Extent extent, StopFlag stop);

}  // namespace xrun::runtime
