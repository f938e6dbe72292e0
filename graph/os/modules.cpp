#include "graph/os/modules.h"

#include <filesystem>

namespace xrun {

std::string module_path(std::string_view file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path built = folder / file;
  const fs::path installed = folder.parent_path() / "lib/xrun" / file;
  return !fs::exists(built, ignored) && fs::exists(installed, ignored) ? installed : built;
}

}  // namespace xrun
