// Special registers: names of values that are known before a kernel starts.
#pragma once

#include <optional>
#include <string_view>

#include "tests/support/ptx/instruction.h"

namespace xrun::ptx {

// The value of a special register, `%tid.x` or `%laneid`; nothing for other names. `reg` is not set.
std::optional<Constant> find_special(std::string_view name);

}  // namespace xrun::ptx
