// SHA-256, which names sources, models and plans in their files.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace xrun {

using Sha256 = std::array<std::byte, 32>;

// The digest of some bytes. Allocates nothing.
Sha256 sha256(std::span<const std::byte> bytes);
// The digest as 64 hex digits.
std::string sha256_hex(std::string_view text);

}  // namespace xrun
