// Names of tensors: paths whose parts are separated by dots, "layer1.0.conv.weight".
#pragma once

#include <string_view>
#include <vector>

namespace xrun {

// Returns the parts of a name, which point into it; an empty name has one empty part. Threads: any.
std::vector<std::string_view> parts_of_name(std::string_view name);

}  // namespace xrun
