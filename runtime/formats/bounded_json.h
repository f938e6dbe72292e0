// Parses JSON of untrusted files in linear time, with a bound on its depth.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace xrun::runtime {

inline constexpr int kMostJsonDepth = 64;

// Parses the text. The result is discarded (`is_discarded`) if the text is not JSON, or nests lists and objects more
// than kMostJsonDepth deep. Of a repeated key the last value is kept.
nlohmann::json parse_json(std::string_view text);

}  // namespace xrun::runtime
