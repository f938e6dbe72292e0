// safetensors files of any writer. Types that xrun does not write are read too, and the data may be misaligned.
#pragma once

#include <memory>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "runtime/formats/random_file.h"
#include "runtime/interchange/weights/weight_file.h"

namespace xrun::runtime {

// Opens a file; tensors of complex numbers and of numbers of 4 and 6 bits are among others(). Errors: XG0401; XG0715,
// see parse_safetensors.
Result<std::unique_ptr<WeightFile>> open_safetensors(std::shared_ptr<const RandomFile> file, StopFlag stop);

}  // namespace xrun::runtime
