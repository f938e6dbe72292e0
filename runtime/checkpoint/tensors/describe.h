// The description of a checkpoint that `xrun show` prints.
#pragma once

#include <string>

#include "graph/base/result.h"

namespace xrun::runtime {

// Returns the contents of the manifest and of the files' headers, as text or as a JSON document. Errors: those of
// open_checkpoint; XG0710 the header of a file is damaged.
Result<std::string> describe_checkpoint(const std::string& path, bool json);

}  // namespace xrun::runtime
