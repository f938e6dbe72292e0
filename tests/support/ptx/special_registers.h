// Special registers: names of values that are known before a kernel starts.
#pragma once

#include <optional>
#include <string_view>

#include "tests/support/ptx/instruction.h"

namespace xrun::ptx {

// Returns the value of a special register, such as `%tid.x` or `%laneid`, without its `reg`; nullopt for other names.
std::optional<Constant> find_special(std::string_view name);

}  // namespace xrun::ptx
