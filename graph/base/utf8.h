// Text in UTF-8: the ends of its characters, and the form in which text of users is shown on a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

// The number of bytes of the well-formed UTF-8 sequence at the start of `text`; 0 if `text` does not start with one
// (Unicode 15, table 3-7).
uint32_t sequence_length(std::string_view text);

// is_control returns whether `c` is a control character of ASCII; escape_of returns its form in a string of the
// language, "\\u{1B}".
bool is_control(char c);
std::string escape_of(char c);
// Appends the character with the code point `code`, which is at most 0x10FFFF.
void append_utf8(std::string& out, uint32_t code);

// Replaces everything that controls a terminal or hides characters. Control characters of ASCII become their pictures
// (ESC becomes U+241B). Other such characters, and bytes that are not UTF-8, become U+FFFD; each replacement is one
// column wide. Line feeds stay.
std::string printable(std::string_view text);
// The printable text on one line: line feeds also become pictures.
std::string printable_line(std::string_view text);

// Replaces each byte that is not part of a UTF-8 character by an escape such as "\\xE9", so that texts that differ in
// such bytes stay different.
std::string well_formed(std::string_view text);

}  // namespace xrun
