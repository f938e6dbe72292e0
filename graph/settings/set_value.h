// A flag --set PATH=VALUE.
#pragma once

#include <string>

namespace xrun {

struct SetValue {
  std::string path;
  std::string value;
  std::string directory;  // where relative paths in the value start; empty: the working directory

  bool operator==(const SetValue&) const = default;
};

}  // namespace xrun
