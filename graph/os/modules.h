// Finds the modules of the program, libraries that the program itself loads and only when it needs them, and the
// programs that are installed with it.
#pragma once

#include <string>
#include <string_view>

namespace xrun {

/// The path of the module with this file name. It is searched first in the folder of the program, as in a build, and
/// then in `../lib/xrun`, as in an installation. Both folders are found from the program itself, so no search path
/// decides which code is loaded. If neither folder has the module, the result is the path in the first one, where no
/// file exists.
std::string module_path(std::string_view file);

/// The path of the program with this file name in the folder of the running one, whether or not it exists there. Builds
/// and installations keep all programs of xrun in one folder.
std::string program_path(std::string_view file);

}  // namespace xrun
