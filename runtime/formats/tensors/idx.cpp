#include "runtime/formats/tensors/idx.h"

#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kLargestFile = 64 * kGiB;

}  // namespace

Error broken_idx(std::string_view name, std::string why) {
  return content_error("XG0412", {"{}: {}", name, why},
                       "get the file again, or let `xrun data show FILE` find its reader");
}

Bytes idx_element_bytes(int type) {
  switch (type) {
    case 0x08:
    case 0x09:
      return 1;
    case 0x0B:
      return 2;
    case 0x0C:
    case 0x0D:
      return 4;
    case 0x0E:
      return 8;
    default:
      return 0;
  }
}

std::string idx_content(const IdxHeader& header) {
  constexpr std::string_view kNames[] = {"u8", "i8", "", "i16", "i32", "f32", "f64"};
  return fmt::format("{} [{}]", kNames[header.type - 0x08], fmt::join(header.dims, ", "));
}

double idx_number(int type, std::span<const std::byte> data, size_t index) {
  const auto width = static_cast<size_t>(idx_element_bytes(type));
  uint64_t bits = 0;
  for (const std::byte byte : data.subspan(index * width, width)) {
    bits = bits << 8 | std::to_integer<uint64_t>(byte);
  }
  switch (type) {
    case 0x08:
      return static_cast<double>(bits);
    case 0x0D:
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case 0x0E:
      return std::bit_cast<double>(bits);
    default: {
      const size_t spare = 64 - 8 * width;
      return static_cast<double>(static_cast<int64_t>(bits << spare) >> spare);  // extends the sign of i8, i16, i32
    }
  }
}

Result<IdxHeader> parse_idx_header(std::span<const std::byte> bytes, std::string_view name) {
  const auto at = [&](size_t i) { return std::to_integer<uint32_t>(bytes[i]); };
  if (bytes.size() < 4 || at(0) != 0 || at(1) != 0 || idx_element_bytes(static_cast<int>(at(2))) == 0) {
    return broken_idx(name, "not an IDX file (it begins with 00 00, a type and a number of dimensions)");
  }
  const size_t rank = at(3);
  if (rank < 1 || rank > kMostIdxDims) {
    return broken_idx(name, fmt::format("an IDX file of {} dimensions", rank));
  }
  IdxHeader header{.type = static_cast<int>(at(2)), .header_bytes = static_cast<Bytes>(4 + 4 * rank)};
  if (bytes.size() < 4 + 4 * rank) {
    return broken_idx(name, "cut short in its header");
  }
  header.data_bytes = idx_element_bytes(header.type);
  for (size_t d = 0; d < rank; ++d) {
    const size_t p = 4 + 4 * d;
    const auto dim = static_cast<int64_t>(at(p) << 24 | at(p + 1) << 16 | at(p + 2) << 8 | at(p + 3));
    header.dims.push_back(dim);
    if (dim > 0 && header.data_bytes > kLargestFile / dim) {
      return broken_idx(name, "its header asks for more than 64 GiB");
    }
    header.data_bytes *= dim;
  }
  return header;
}

}  // namespace xrun::runtime
