// Lists of pairs of pictures in text files, as PLSC has them: "path1<TAB>path2<TAB>1", one pair a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun::runtime {

struct PairList {
  std::vector<std::string_view> paths;  // 2n paths; they refer to the text
  std::vector<uint8_t> same;            // n flags: 1 if the pictures 2i and 2i + 1 show the same person
};

// Whether a file that begins with `start` is text with columns. A pickle is not, whatever its protocol.
bool is_pair_list(std::span<const std::byte> start);

// The flag of a pair: 1 for "1" and "True", 0 for "0" and "False", also in lower case; nullopt for other texts.
std::optional<uint8_t> pair_flag(std::string_view text);

// Parses the text of a list. A line has two paths and 1 or 0 (or True or False), separated by tabs; a line without a
// tab by single spaces. Blank lines, a byte order mark and carriage returns at the ends of lines are skipped. `name` is
// for messages. Errors: XG0412 with the line.
Result<PairList> parse_pair_list(std::string_view text, std::string_view name);

}  // namespace xrun::runtime
