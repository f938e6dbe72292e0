// Natural order of file names: 2.png before 10.png.
#pragma once

#include <string_view>

namespace xrun::runtime {

// Whether path `a` comes before path `b`. Sequences of digits are compared as numbers, of any length; other characters
// are compared byte by byte, and `/` comes before every other byte, so that the files of a directory stay together.
// Paths that differ only in leading zeros are in byte order.
bool comes_before(std::string_view a, std::string_view b);

}  // namespace xrun::runtime
