// Fuzzes lists of pairs: any text gives two paths for each flag, within the text, or an error with a line.
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/data/readers/pairs/pair_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun::runtime;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(is_pair_list(std::as_bytes(std::span(data, size))));
  if (const auto list = parse_pair_list(text, "input"); list.ok()) {
    XRUN_CHECK(list->paths.size() == 2 * list->same.size(), "a pair has two paths");
    for (const std::string_view path : list->paths) {
      XRUN_CHECK(!path.empty() && path.data() >= text.data() && path.data() + path.size() <= text.data() + size,
                 "paths are within the text");
    }
  }
  return 0;
}
