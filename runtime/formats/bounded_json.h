// Parses JSON from untrusted files in linear time, with a limit on its depth.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace xrun::runtime {

inline constexpr int kMostJsonDepth = 64;

// Parses the text. If it is not JSON, or lists and objects are nested more than kMostJsonDepth deep, `is_discarded` of
// the result is true. If an object repeats a key, the last value is kept.
nlohmann::json parse_json(std::string_view text);

}  // namespace xrun::runtime
