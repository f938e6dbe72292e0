// Makes tar archives byte by byte, for tests of damaged and unusual ones.
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xrun::testing {

struct TarHeader {
  std::string name;
  std::string size = "0";  // octal digits, or the bytes of a number in base 256
  char type = '0';
  std::string magic = std::string("ustar\0", 6);
  std::string prefix;
  bool signed_sum = false;  // the checksum adds signed bytes, as old programs did
};

// Writes the right checksum into a header.
inline void set_checksum(std::string& block, size_t begin = 0, bool is_signed = false) {
  block.replace(begin + 148, 8, 8, ' ');
  int64_t sum = 0;
  for (size_t i = begin; i < begin + 512; ++i) {
    sum += is_signed ? static_cast<int64_t>(static_cast<int8_t>(block[i])) : static_cast<uint8_t>(block[i]);
  }
  block.replace(begin + 148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
}

inline std::string tar_header(const TarHeader& header) {
  std::string block(512, '\0');
  block.replace(0, header.name.size(), header.name);
  block.replace(124, header.size.size(), header.size);
  block[156] = header.type;
  block.replace(257, header.magic.size(), header.magic);
  block.replace(345, header.prefix.size(), header.prefix);
  set_checksum(block, 0, header.signed_sum);
  return block;
}

inline std::string padded(std::string content) {
  content.resize((content.size() + 511) / 512 * 512);
  return content;
}

// An ordinary member.
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0') {
  return tar_header({.name = name, .size = fmt::format("{:011o}", content.size()), .type = type}) + padded(content);
}

// A record of a pax header, "LENGTH KEY=VALUE\n".
inline std::string pax_record(const std::string& key, const std::string& value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (fmt::format("{}", length).size() + rest != length) {
    ++length;
  }
  return fmt::format("{} {}={}\n", length, key, value);
}

inline const std::string kTarEnd(1024, '\0');

// An archive of ordinary members.
inline std::string tar_file(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out;
  for (const auto& [name, content] : members) {
    out += tar_member(name, content);
  }
  return out + kTarEnd;
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace xrun::testing
