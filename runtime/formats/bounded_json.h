// JSON of files that others may have written: read in linear time, with a bound on its depth.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace xrun::runtime {

inline constexpr int kMostJsonDepth = 64;

// Discarded (`is_discarded`) where the text is no JSON, or has lists and objects more than kMostJsonDepth deep. Of a
// key that comes twice the last value is kept.
nlohmann::json parse_json(std::string_view text);

}  // namespace xrun::runtime
