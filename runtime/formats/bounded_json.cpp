#include "runtime/formats/bounded_json.h"

#include <nlohmann/json.hpp>

namespace xrun::runtime {
namespace {

// Counts brackets outside strings. The count may be wrong if the text is not JSON, but then the parser rejects the
// text.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > kMostJsonDepth) {
        return true;
      }
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return false;
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  using nlohmann::json;
  return is_too_deep(text) ? json(json::value_t::discarded) : json::parse(text, nullptr, false);
}

}  // namespace xrun::runtime
