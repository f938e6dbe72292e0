// The text of graph/base/codes.md, which the build puts into the binary (graph/base/codes_text.cpp.in).
#pragma once

#include <string_view>

namespace xrun {

std::string_view codes_text();

}  // namespace xrun
