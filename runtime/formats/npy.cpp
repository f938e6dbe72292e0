#include "runtime/formats/npy.h"

#include "graph/base/durable.h"

namespace xrun::runtime {

Status write_npy(const std::string& path, std::span<const float> values, int64_t rows, int64_t columns) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(columns) + "), }";
  constexpr size_t kPrefix = 10;  // magic, version, length of the header
  header += std::string(63 - (kPrefix + header.size()) % 64, ' ') + "\n";
  const auto length = static_cast<uint16_t>(header.size());
  const char prefix[kPrefix] = {
      '\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(prefix)), std::as_bytes(std::span(header)),
                                               std::as_bytes(values)};
  return replace_file(path, pieces, {.name = "NumPy array", .code = "XG0901", .magic = "\x93NUMPY"});
}

}  // namespace xrun::runtime
