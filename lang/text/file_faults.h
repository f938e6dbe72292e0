// Faults of which a file has either none or hundreds: tabs, carriage returns, bytes that are not UTF-8. Each kind is
// reported once, with the number of its occurrences.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lang/text/faults.h"

namespace xrun::lang {

struct Counted {
  uint32_t first = 0;
  uint32_t count = 0;
  void see(uint32_t at) {
    first = count == 0 ? at : first;
    ++count;
  }
};

// Reports the bytes after `begin` that are not UTF-8, all in one fault: a file in another encoding has one for every
// umlaut.
void check_encoding(std::string_view text, int32_t file, uint32_t begin, Faults& faults);
void report_counted(const Counted& tabs, const Counted& returns, int32_t file, const std::string& path, Faults& faults);

}  // namespace xrun::lang
