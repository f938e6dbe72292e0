// The header of a file: name at 0, mode at 100, user at 108, group at 116, size at 124, time at 136, checksum at 148,
// type at 156, "ustar" and version at 257. Numbers are octal digits. The checksum is the sum of all bytes of the header
// while its own field holds blanks.
#include "runtime/formats/records/tar_writer.h"

#include <array>
#include <cstring>
#include <fmt/format.h>

#include "graph/base/check.h"
#include "runtime/formats/records/tar.h"

namespace xrun::runtime {

void append_tar_file(std::string_view name, std::span<const std::byte> contents, std::vector<std::byte>& to) {
  XRUN_CHECK(name.size() <= kLongestTarName && contents.size() < size_t{1} << 33, "no header of ustar holds this file");
  std::array<char, static_cast<size_t>(kTarBlock)> header{};
  const auto put = [&](size_t at, std::string_view text) { std::memcpy(header.data() + at, text.data(), text.size()); };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", contents.size()));
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) {
    sum += static_cast<unsigned char>(c);
  }
  put(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  const auto bytes = std::as_bytes(std::span(header));
  to.insert(to.end(), bytes.begin(), bytes.end());
  to.insert(to.end(), contents.begin(), contents.end());
  to.resize(static_cast<size_t>(align_up(static_cast<Bytes>(to.size()), kTarBlock)));
}

void append_tar_end(std::vector<std::byte>& to) { to.resize(to.size() + 2 * static_cast<size_t>(kTarBlock)); }

}  // namespace xrun::runtime
