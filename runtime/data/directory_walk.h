// The files below a directory, links followed.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/base/stop.h"

namespace xrun::runtime {

// Calls `visit` with the path, below `root`, of every regular file, in no order. A directory may be reached by several
// links, as a class by two names; one that leads back to itself, or that is reached more than 64 times (links beside
// links, level below level, multiply the ways to it), is an error. What cannot be looked at is passed over. Errors:
// XG0401, kInterrupted, those of `visit`.
using VisitFile = std::function<Status(std::string_view name)>;
Status walk_directory(const std::string& root, StopFlag stop, const VisitFile& visit);

}  // namespace xrun::runtime
