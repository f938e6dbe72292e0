#include "runtime/formats/pickle/pickle_string.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "graph/base/utf8.h"

namespace xrun::runtime {
namespace {

constexpr uint32_t kLastLatin1 = 0xFF;
constexpr uint32_t kLastCodePoint = 0x10FFFF;

// Reads a number of `digits` digits at the start of `text`.
std::optional<uint32_t> number_at(std::string_view text, size_t digits, int base) {
  uint32_t number = 0;
  if (text.size() < digits) {
    return std::nullopt;
  }
  const auto [end, fault] = std::from_chars(text.data(), text.data() + digits, number, base);
  return fault == std::errc() && end == text.data() + digits ? std::optional(number) : std::nullopt;
}

// Calls `put` for each code point of latin-1 text with \u and \U escapes. A backslash before another character stands
// for itself and does not start an escape with its second character, as in Python's codec raw_unicode_escape. Returns
// false if an escape is broken or `put` returns false.
template <class Put>
bool decode_unicode_escapes(std::string_view text, const Put& put) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) { return uint32_t{static_cast<unsigned char>(text[at])}; };
    if (text[i] != '\\' || i + 1 == text.size()) {
      if (!put(byte(i++))) {
        return false;
      }
      continue;
    }
    const char kind = text[i + 1];
    if (kind != 'u' && kind != 'U') {
      if (!put(byte(i)) || !put(byte(i + 1))) {
        return false;
      }
      i += 2;
      continue;
    }
    const size_t digits = kind == 'u' ? 4 : 8;
    const auto code = number_at(text.substr(i + 2), digits, 16);
    if (!code || *code > kLastCodePoint || !put(*code)) {
      return false;
    }
    i += 2 + digits;
  }
  return true;
}

// A decoder of escaped bytes, as in Python's codec string_escape. `out` may be the start of `text`.
std::optional<size_t> decode_escapes(std::string_view text, char* out) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  char* const start = out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\\') {
      *out++ = text[i++];
      continue;
    }
    if (++i == text.size()) {
      return std::nullopt;
    }
    const char kind = text[i];
    if (const size_t letter = kLetters.find(kind); letter != std::string_view::npos) {
      *out++ = kMeanings[letter];
      ++i;
    } else if (kind == 'x') {
      const auto code = number_at(text.substr(i + 1), 2, 16);
      if (!code) {
        return std::nullopt;
      }
      *out++ = static_cast<char>(*code);
      i += 3;
    } else if (kind >= '0' && kind <= '7') {
      uint32_t code = 0;
      for (int digit = 0; digit < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++digit) {
        code = code * 8 + static_cast<uint32_t>(text[i++] - '0');
      }
      *out++ = static_cast<char>(code & kLastLatin1);
    } else {
      *out++ = '\\';  // Python keeps a backslash that starts no escape
      *out++ = kind;
      ++i;
    }
  }
  return static_cast<size_t>(out - start);
}

std::optional<size_t> decode_latin1_of_utf8(std::string_view text, char* out) {
  char* const start = out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const uint32_t length = sequence_length(text.substr(i, 2));
    if (length == 0 || lead > 0xC3) {
      return std::nullopt;
    }
    *out++ =
        length == 1 ? text[i] : static_cast<char>((lead & 3U) << 6 | (static_cast<unsigned char>(text[i + 1]) & 0x3FU));
    i += length;
  }
  return static_cast<size_t>(out - start);
}

Error not_decoded(const PickleInput& input, const PickleString& string) {
  return damaged_pickle(input.name(), string.offset, "a string is not stored as its type requires");
}

Result<std::vector<std::byte>> read_stored(const PickleInput& input, const PickleString& string) {
  std::vector<std::byte> stored(static_cast<size_t>(string.size));
  XRUN_TRY(input.read(string.offset, stored));
  return stored;
}

}  // namespace

std::optional<size_t> decode_pickle_bytes(PickleCoding coding, std::span<std::byte> stored) {
  auto* const out = reinterpret_cast<char*>(stored.data());
  const std::string_view text(out, stored.size());
  switch (coding) {
    case PickleCoding::kRaw:
      return stored.size();
    case PickleCoding::kUtf8:
      return decode_latin1_of_utf8(text, out);
    case PickleCoding::kEscaped:
      return decode_escapes(text, out);
    case PickleCoding::kUnicodeEscaped: {
      size_t size = 0;
      const auto put = [&](uint32_t code) {
        out[size++] = static_cast<char>(code);
        return code <= kLastLatin1;
      };
      return decode_unicode_escapes(text, put) ? std::optional(size) : std::nullopt;
    }
  }
  return std::nullopt;
}

Result<std::vector<std::byte>> read_pickle_bytes(const PickleInput& input, const PickleString& string) {
  XRUN_ASSIGN(auto bytes, read_stored(input, string));
  const auto size = decode_pickle_bytes(string.coding, bytes);
  if (!size) {
    return not_decoded(input, string);
  }
  bytes.resize(*size);
  return bytes;
}

Result<std::string> read_pickle_text(const PickleInput& input, const PickleString& string, Bytes most) {
  if (string.size > most) {
    return damaged_pickle(
        input.name(), string.offset,
        fmt::format("a name is {} long; at most {} are read", format_bytes(string.size), format_bytes(most)));
  }
  XRUN_ASSIGN(auto bytes, read_stored(input, string));
  const std::string_view stored(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (string.coding == PickleCoding::kUnicodeEscaped) {
    std::string text;
    const auto put = [&](uint32_t code) {
      append_utf8(text, code);
      return true;
    };
    return decode_unicode_escapes(stored, put) ? Result<std::string>(std::move(text)) : not_decoded(input, string);
  }
  if (string.coding == PickleCoding::kEscaped) {
    const auto size = decode_escapes(stored, reinterpret_cast<char*>(bytes.data()));
    return size ? Result<std::string>(std::string(stored.substr(0, *size))) : not_decoded(input, string);
  }
  return std::string(stored);
}

}  // namespace xrun::runtime
