// Copies tensors of files of weights into the state of a run.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "runtime/interchange/import/match_tensors.h"
#include "runtime/interchange/weights/weight_file.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// Writes the values of all fits, a few MiB at a time; a transposed tensor is read as a whole. `files`: the open files
// by ForeignTensor::file. Values are rounded to the format of the state's rows. REQUIRES: the state has the tensors of
// `form`, with all rows. Errors: those of WeightFile::read; XG0412 a number is not finite.
Status copy_tensors(std::span<const Fit> fits, std::span<const ForeignTensor> tensors,
                    std::span<const std::unique_ptr<WeightFile>> files, const ModelForm& form, TrainState& state,
                    StopFlag stop);

}  // namespace xrun::runtime
