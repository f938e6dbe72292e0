// Picture files named on a command line, as a source of samples: what `predict` reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/reader.h"

namespace xrun::runtime {

// Sample i is the file paths[i]. `like` is the field of the model's own source that feeds its input: an encoded field
// gives the file as it is; pixels [C, H, W] are decoded (grey for one channel, else RGB), brought to H × W by
// antialiased bilinear scaling, and dark-on-light pictures are not inverted. A field `label` is 0.
// Errors: XG0401 a file cannot be read; XG0412 it is no picture, or `like` is no picture field.
Result<std::unique_ptr<Reader>> open_picture_files(std::vector<std::string> paths, const Field& like);

}  // namespace xrun::runtime
