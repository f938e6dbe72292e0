// Strings of a pickle, as places in the file: they are read and decoded when they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/formats/pickle/pickle_input.h"

namespace xrun::runtime {

// How the characters or bytes of a string are stored.
enum class PickleCoding : uint8_t {
  kRaw,             // the bytes themselves
  kUtf8,            // text in UTF-8; Python stores lone surrogates likewise
  kEscaped,         // bytes as in a literal of Python 2: \n, \', \x00, \000 (protocol 0)
  kUnicodeEscaped,  // text in latin-1 with \u0000 and \U00000000 (protocol 0)
};

// The place of a string in the file.
struct PickleString {
  Bytes offset = 0;
  Bytes size = 0;  // stored bytes, which are at least as many as the decoded ones
  PickleCoding coding = PickleCoding::kRaw;
};

// Converts stored bytes to the bytes of the string, in place; a text gives one byte per character (latin-1), which is
// how Python 3 stores byte strings up to protocol 2. Returns the number of bytes, or nothing if the stored bytes are
// not well formed or a character is above U+00FF.
std::optional<size_t> decode_pickle_bytes(PickleCoding coding, std::span<std::byte> stored);

// Reads a string as bytes. Errors: those of the input; XG0412 it cannot be decoded.
Result<std::vector<std::byte>> read_pickle_bytes(const PickleInput& input, const PickleString& string);

// Reads a string as text in UTF-8; byte strings are not converted. Errors: those of the input; XG0412 it cannot be
// decoded, or has more than `most` stored bytes.
inline constexpr Bytes kMostPickleText = 64 * kKiB;
Result<std::string> read_pickle_text(const PickleInput& input, const PickleString& string,
                                     Bytes most = kMostPickleText);

}  // namespace xrun::runtime
