// The printable characters of ASCII as patterns of 5 x 7 dots, as on character displays. They need no font of the
// system, so that a sheet is the same on every machine.
#pragma once

#include <string>
#include <string_view>

namespace xrun::cli {

inline constexpr int kLetterWidth = 5;
inline constexpr int kLetterHeight = 8;  // seven rows, and one below the line for g, j, p, q and y

// Whether the pattern of `letter`, a character from ' ' to '~', has a dot in column x and row y.
bool has_dot(char letter, int x, int y);

// The text with each other character replaced by its code point, "U+4E00", or by "?" for bytes that are not UTF-8.
std::string in_letters(std::string_view text);

}  // namespace xrun::cli
