// The libraries whose versions a result may depend on (docs/internals/determinism.md).
#pragma once

#include <map>
#include <string>

namespace xrun::runtime {

// Returns the versions of the loaded libraries; key: `freetype`, `libjpeg-turbo`, `onednn`, `tbb`.
std::map<std::string, std::string> library_versions();

}  // namespace xrun::runtime
