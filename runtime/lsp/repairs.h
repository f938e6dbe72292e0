// The safe edits of diagnostics, as `xrun fix` and editors apply them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"

namespace xrun {

// The edits of one diagnostic.
struct Repair {
  std::string code;
  std::string title;
  Span place;
  std::vector<Edit> edits;
};

// For each diagnostic, the first fix that is safe and changes only the file `path`. If two repairs overlap, only the
// first is returned. A check after its edits finds the other one again, if that is still needed.
std::vector<Repair> sure_repairs(const Diagnostics& diagnostics, const SourceMap& sources, std::string_view path);

// Returns the text with all edits applied. REQUIRES: the repairs do not overlap.
std::string repaired(std::string text, const std::vector<Repair>& repairs);

}  // namespace xrun
