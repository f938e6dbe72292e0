// Visits the files below a directory; links are followed.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/base/stop.h"

namespace xrun::runtime {

// Calls `visit` with the path of every regular file below `root`, relative to `root`, in no particular order. A
// directory to which several links lead is visited once for each link, so that a class can have two names. Errors for
// links: a cycle, or more than 64 paths to one directory. Entries that cannot be examined are skipped, and so are
// directories for which `enters` returns false. Errors: XG0401, kInterrupted, those of `visit`.
using VisitFile = std::function<Status(std::string_view name)>;
using EntersDirectory = std::function<bool(std::string_view name)>;
Status walk_directory(const std::string& root, StopFlag stop, const VisitFile& visit,
                      const EntersDirectory& enters = nullptr);

}  // namespace xrun::runtime
