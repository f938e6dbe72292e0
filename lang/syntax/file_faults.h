// Faults that a file has by the hundred or not at all, which are reported once, with their number: tabs, carriage
// returns, bytes that are not UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lang/faults.h"

namespace xrun::lang {

struct Counted {
  uint32_t first = 0;
  uint32_t count = 0;
  void see(uint32_t at) {
    first = count == 0 ? at : first;
    ++count;
  }
};

// Reports bytes from `begin` on that are not UTF-8, since in a file of another encoding every umlaut is such a byte.
void check_encoding(std::string_view text, int32_t file, uint32_t begin, Faults& faults);
void report_counted(const Counted& tabs, const Counted& returns, int32_t file, const std::string& path, Faults& faults);

}  // namespace xrun::lang
