// Different texts that look alike: Unicode's forms NFC and NFD, letters of other alphabets, invisible characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// The numbers of the characters of a text; a byte that is not UTF-8 counts as 0x110000 and its value.
std::vector<uint32_t> characters(std::string_view text);
// The name of a character: "U+00E9".
std::string number_of_character(uint32_t code);

// Whether a character is invisible: zero-width spaces and joiners, soft hyphens, byte-order marks, direction marks.
bool is_invisible(uint32_t code);
// The ASCII character that a character looks like: a full-width form, a space, a letter of another alphabet. 0 if it is
// ASCII itself or looks like no ASCII character.
char ascii_alike(uint32_t code);

// The first difference of two texts that look alike: "it has U+00E9 where this one has U+0065 U+0301", where `it` is
// `known`. Empty if the texts are equal or look different.
std::string difference_of_alikes(std::string_view written, std::string_view known);

}  // namespace xrun
