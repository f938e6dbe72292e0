// Base64 (RFC 4648, section 4).
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace xrun::runtime {

// Decodes the text in place and returns the number of bytes that now begin `text`; nullopt if it is not base64. The
// padding `=` at the end may be missing.
std::optional<size_t> decode_base64(std::span<std::byte> text);

}  // namespace xrun::runtime
