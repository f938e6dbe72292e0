// Where the modules of the program are: libraries that it opens itself, and only when it needs them.
#pragma once

#include <string>
#include <string_view>

namespace xrun {

/// The path of the module with this file name: in the folder of the program, as in a build, or else in `../lib/xrun`,
/// as in an installation. Both are found from the program itself, so no search path decides which code is loaded. A
/// module that is in neither folder has the first path, and no file is there.
std::string module_path(std::string_view file);

}  // namespace xrun
