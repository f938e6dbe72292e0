// Files of weights that begin with a pickle: those of PyTorch before version 1.6, and pickles of arrays, such as the
// .pdparams of PaddlePaddle. Nothing of a file is executed.
#pragma once

#include <memory>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "runtime/formats/random_file.h"
#include "runtime/interchange/weights/weight_file.h"

namespace xrun::runtime {

// Errors: those of open_weight_file.
Result<std::unique_ptr<WeightFile>> open_pickle_of_weights(std::shared_ptr<const RandomFile> file, StopFlag stop);

}  // namespace xrun::runtime
