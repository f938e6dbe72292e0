#include "graph/base/counted.h"

#include "graph/base/units.h"

namespace xrun {

std::string counted(int64_t count, std::string_view noun) {
  const bool hisses = noun.ends_with('s') || noun.ends_with('x') || noun.ends_with("ch");
  return format_count(count) + " " + std::string(noun) + (count == 1 ? "" : hisses ? "es" : "s");
}

std::string counted_of(int64_t part, int64_t whole, std::string_view noun) {
  return format_count(part) + " of " + counted(whole, noun);
}

}  // namespace xrun
