// The edits of diagnostics that are sure, as `xrun fix` and editors carry them out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"

namespace xrun {

// What one diagnostic asks for.
struct Repair {
  std::string code;
  std::string title;
  Span place;
  std::vector<Edit> edits;
};

// Of each diagnostic the first fix that is sure and changes the file `path` alone. Of two repairs that touch one place
// the first one is given; the other one is found again after it, if it is then needed.
std::vector<Repair> sure_repairs(const Diagnostics& diagnostics, const SourceMap& sources, std::string_view path);

// The text with all edits carried out. REQUIRES: the repairs touch different places of it.
std::string repaired(std::string text, const std::vector<Repair>& repairs);

}  // namespace xrun
