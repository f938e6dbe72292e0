#include "lang/text/file_faults.h"

#include <algorithm>
#include <cstring>

#include "graph/base/utf8.h"

namespace xrun::lang {

void check_encoding(std::string_view text, int32_t file, uint32_t begin, Faults& faults) {
  Counted bytes;
  for (uint32_t i = begin; i < text.size();) {
    uint64_t eight = 0;
    if (i + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & 0x8080808080808080U) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const uint32_t length = static_cast<unsigned char>(text[i]) < 0x80 ? 1 : sequence_length(text.substr(i));
    if (length == 0) {
      bytes.see(i);
    }
    i += std::max(length, 1U);
  }
  if (bytes.count == 0) {
    return;
  }
  Diagnostic& fault = faults.error("XG0102", {file, bytes.first, bytes.first + 1}, "the file is not UTF-8 text",
                                   "this byte starts no character",
                                   Fix{.title = "save the file as UTF-8, or convert it from its encoding",
                                       .lines = {"$ iconv -f LATIN1 -t UTF-8 OLD > NEW"}});
  if (bytes.count > 1) {
    fault.notes.push_back("the file has " + std::to_string(bytes.count) + " such bytes");
  }
}

void report_counted(const Counted& tabs, const Counted& returns, int32_t file, const std::string& path,
                    Faults& faults) {
  if (tabs.count > 0) {
    const Span first{file, tabs.first, tabs.first + 1};
    Fix fix = replacement("write two spaces", first, "  ", true);
    if (tabs.count > 1) {
      fix = {.title = "write two spaces for each of the " + std::to_string(tabs.count) + " tabs of the file",
             .lines = {"$ sed -i 's/\\t/  /g' " + path}};
    }
    faults.error("XG0103", first, "a tab; indent by two spaces", "", std::move(fix));
  }
  if (returns.count > 0) {
    faults
        .error("XG0102", {file, returns.first, returns.first + 1},
               "lines end with a carriage return; a line feed alone is used", "",
               Fix{.title = "save the file with the line ends of Unix", .lines = {"$ sed -i 's/\\r$//' " + path}})
        .notes.push_back("the file has " + std::to_string(returns.count) + " such lines");
  }
}

}  // namespace xrun::lang
