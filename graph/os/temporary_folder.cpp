#include "graph/os/temporary_folder.h"

#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include "graph/base/errors.h"

namespace xrun {

namespace fs = std::filesystem;

Result<std::unique_ptr<TemporaryFolder>> TemporaryFolder::next_to(const std::string& target, std::string_view code) {
  std::string path = fmt::format("{}.tmp-{}", target, ::getpid());
  std::error_code fault;
  if (!fs::create_directory(path, fault) && !fault) {
    fs::remove_all(path, fault);  // an earlier process with this number was killed
    fs::create_directory(path, fault);
  }
  if (fault) {
    return world_error(code, {"cannot create the folder {}: {}", path, fault.message()},
                       "name a place in a folder that exists and can be written");
  }
  return std::make_unique<TemporaryFolder>(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Status TemporaryFolder::release(const std::string& name, const std::string& place, std::string_view code) const {
  const std::string from = path_ + "/" + name;
  std::error_code fault;
  fs::rename(from, place, fault);
  return fault ? Status(world_error(code, {"cannot rename {} to {}: {}", from, place, fault.message()},
                                    "name a place in a folder that exists and can be written"))
               : Status();
}

}  // namespace xrun
