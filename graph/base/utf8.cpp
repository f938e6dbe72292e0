// Tests: tests/graph/base/base_test.cpp
#include "graph/base/utf8.h"

#include <algorithm>
#include <cstdio>

namespace xrun {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

// Whether the character is a C1 control or reverses the direction of text.
bool is_hidden(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 2) {
    return byte(0) == 0xC2 && byte(1) < 0xA0;  // U+0080 to U+009F
  }
  const bool embeds = sequence.size() == 3 && byte(0) == 0xE2 && byte(1) == 0x80 && byte(2) >= 0xAA && byte(2) <= 0xAE;
  const bool isolates =
      sequence.size() == 3 && byte(0) == 0xE2 && byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
  return embeds || isolates;  // U+202A to U+202E, U+2066 to U+2069
}

// Whether the character neither controls nor hides anything; the bytes after it then need not be examined.
bool is_plain(char c) { return (c >= 0x20 && c < 0x7F) || c == '\n'; }

}  // namespace

uint32_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return tail(1) ? 2 : 0;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= low && byte(1) <= high && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

std::string escape_of(char c) {
  char text[16];
  std::snprintf(text, sizeof text, "\\u{%X}", static_cast<unsigned>(c));
  return text;
}

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

std::string printable(std::string_view text) {
  const auto plain = static_cast<size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
  std::string shown(text.substr(0, plain));
  text.remove_prefix(plain);
  while (!text.empty()) {
    const uint32_t length = sequence_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 1 && first != '\n' && (first < 0x20 || first == 0x7F)) {
      shown += "\xE2\x90";  // U+2400 to U+241F, U+2421
      shown += static_cast<char>(first == 0x7F ? 0xA1 : 0x80 + first);
    } else if (length == 0 || is_hidden(text.substr(0, length))) {
      shown += kReplacement;
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

std::string printable_line(std::string_view text) {
  std::string shown;
  for (const char c : printable(text)) {
    shown += c == '\n' ? "\u240A" : std::string(1, c);
  }
  return shown;
}

std::string well_formed(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const uint32_t length = sequence_length(text);
    if (length == 0) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02X", static_cast<unsigned>(static_cast<unsigned char>(text[0])));
      out += escape;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace xrun
