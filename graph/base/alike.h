// Texts that look alike and differ: the forms NFC and NFD of Unicode, letters of other alphabets, invisible characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// The numbers of the characters of a text; a byte that is not UTF-8 counts as 0x110000 and its value.
std::vector<uint32_t> characters(std::string_view text);
// "U+00E9".
std::string number_of_character(uint32_t code);

// Whether nothing is shown for it: zero-width spaces and joiners, soft hyphens, byte-order marks, marks of direction.
bool is_invisible(uint32_t code);
// The ASCII character that it looks like: a full-width form, a space, a letter of another alphabet; 0 if it is ASCII or
// looks like none.
char ascii_alike(uint32_t code);

// How two texts differ that look alike: "it has U+00E9 where this one has U+0065 U+0301", where `it` is `known`. Empty
// for texts that are equal or look different.
std::string difference_of_alikes(std::string_view written, std::string_view known);

}  // namespace xrun
