// Zip archives of PyTorch, as torch.save writes them since version 1.6. Nothing of a file is executed.
#pragma once

#include <memory>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "runtime/formats/random_file.h"
#include "runtime/interchange/weights/weight_file.h"

namespace xrun::runtime {

// Errors: those of open_weight_file; XG0407 also for an archive of TorchScript.
Result<std::unique_ptr<WeightFile>> open_torch_zip(std::shared_ptr<const RandomFile> file, StopFlag stop);

}  // namespace xrun::runtime
