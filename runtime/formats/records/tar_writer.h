// Builds tar archives in the ustar format, which every tar program reads. Names, owners and times are fixed, so that
// equal members give equal bytes. Source: IEEE Std 1003.1 ("pax", ustar Interchange Format).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace xrun::runtime {

inline constexpr size_t kLongestTarName = 100;

/// Appends a file with its header. REQUIRES: the name has at most kLongestTarName bytes, and the contents less than
/// 8 GiB.
void append_tar_file(std::string_view name, std::span<const std::byte> contents, std::vector<std::byte>& to);

/// Appends the end mark of an archive, two blocks of zeros.
void append_tar_end(std::vector<std::byte>& to);

}  // namespace xrun::runtime
