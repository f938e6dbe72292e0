// Detects files of other formats where text is expected, by their first bytes: compressed files, workbooks, UTF-16.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "graph/base/result.h"

namespace xrun::runtime {

// Checks that the bytes do not begin like such a format. Errors: XG0412 with the format and a way to convert it.
Status refuse_foreign(std::span<const std::byte> bytes, std::string_view path);

}  // namespace xrun::runtime
