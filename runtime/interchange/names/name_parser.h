// The parser of name tables (name_table.h).
#pragma once

#include <vector>

#include "graph/base/diagnostic.h"
#include "runtime/interchange/names/name_table.h"
#include "runtime/interchange/names/name_tokens.h"

namespace xrun::runtime {

// Reads the lines of a table. Faults are added to `diagnostics`, at most twenty of them; lines with faults are left
// out.
void read_lines(std::vector<NameToken> tokens, NameTable& table, Diagnostics& diagnostics);

}  // namespace xrun::runtime
