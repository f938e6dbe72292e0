// Counts with their nouns, for messages: "1 image", "12 images", "3 classes".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

// The count with its noun. `noun` is the singular; its plural ends in `s`, or in `es` after `s`, `x` or `ch`.
std::string counted(int64_t count, std::string_view noun);
// The text for a part of a whole: "1 of 1 sample", "3 of 200 samples".
std::string counted_of(int64_t part, int64_t whole, std::string_view noun);

}  // namespace xrun
