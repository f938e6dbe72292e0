#include "runtime/npy.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace xrun::runtime {

Status write_npy(const std::string& path, std::span<const float> values, int64_t rows, int64_t columns) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(columns) + "), }";
  constexpr size_t kPrefix = 10;  // magic, version, length of the header
  header += std::string(63 - (kPrefix + header.size()) % 64, ' ') + "\n";
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  const auto length = static_cast<uint16_t>(header.size());
  const char prefix[kPrefix] = {
      '\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  out.write(prefix, kPrefix);
  out << header;
  out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
  out.close();
  if (!out) {
    return Error{ErrorKind::kWorld,
                 "XG0901",
                 "cannot write `" + path + "`: " + std::strerror(errno),
                 "name a directory that can be written, with room for the file",
                 {}};
  }
  return {};
}

}  // namespace xrun::runtime
