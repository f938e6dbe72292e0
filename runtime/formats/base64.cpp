#include "runtime/formats/base64.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace xrun::runtime {
namespace {

constexpr uint8_t kNone = 0xff;

constexpr std::array<uint8_t, 256> make_digits() {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<uint8_t, 256> digits{};
  digits.fill(kNone);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    digits[static_cast<uint8_t>(kAlphabet[i])] = static_cast<uint8_t>(i);
  }
  return digits;
}

constexpr std::array<uint8_t, 256> kDigits = make_digits();

}  // namespace

std::optional<size_t> decode_base64(std::span<std::byte> text) {
  size_t size = text.size();
  for (int padding = 0; padding < 2 && size > 0 && text[size - 1] == std::byte{'='}; ++padding) {
    --size;
  }
  if (size % 4 == 1) {
    return std::nullopt;
  }
  size_t written = 0;
  uint32_t bits = 0;
  for (size_t i = 0; i < size; ++i) {
    const uint8_t digit = kDigits[std::to_integer<uint8_t>(text[i])];
    if (digit == kNone) {
      return std::nullopt;
    }
    bits = bits << 6 | digit;
    // Each digit after the first of a group of four completes a byte, so writing never overtakes reading.
    if (i % 4 != 0) {
      text[written++] = static_cast<std::byte>(bits >> (6 - i % 4 * 2) & 0xff);
    }
  }
  return written;
}

}  // namespace xrun::runtime
