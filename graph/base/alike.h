// Finds texts that look alike but differ: in Unicode's forms NFC and NFD, in letters of other alphabets, or in
// invisible characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// The code points of a text. A byte that is not part of valid UTF-8 is returned as 0x110000 plus its value.
std::vector<uint32_t> characters(std::string_view text);
// The name of a code point in messages: "U+00E9".
std::string number_of_character(uint32_t code);

// Whether a character is invisible: zero-width spaces and joiners, soft hyphens, byte-order marks, direction marks.
bool is_invisible(uint32_t code);
// The ASCII character that `code` looks like, if `code` is a full-width form, a space or a letter of another alphabet.
// 0 if it is ASCII itself or looks like no ASCII character.
char ascii_alike(uint32_t code);

// Describes the first difference of two texts that look alike: "it has U+00E9 where this one has U+0065 U+0301". In
// this message "it" is `known` and "this one" is `written`. Empty if the texts are equal or look different.
std::string difference_of_alikes(std::string_view written, std::string_view known);

}  // namespace xrun
