#include "graph/base/tensor_name.h"

#include <algorithm>

namespace xrun {

std::vector<std::string_view> parts_of_name(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t dot = std::min(name.find('.', begin), name.size());
    parts.push_back(name.substr(begin, dot - begin));
    begin = dot + 1;
  }
  return parts;
}

}  // namespace xrun
