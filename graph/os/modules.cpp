#include "graph/os/modules.h"

#include <filesystem>

namespace xrun {
namespace {

namespace fs = std::filesystem;

fs::path folder_of_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace

std::string module_path(std::string_view file) {
  std::error_code ignored;
  const fs::path folder = folder_of_program();
  const fs::path built = folder / file;
  const fs::path installed = folder.parent_path() / "lib/xrun" / file;
  return !fs::exists(built, ignored) && fs::exists(installed, ignored) ? installed : built;
}

std::string program_path(std::string_view file) { return folder_of_program() / file; }

}  // namespace xrun
