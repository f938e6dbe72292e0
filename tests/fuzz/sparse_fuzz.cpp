// Fuzzes sparse text: each line gives labels and features within the counts of the first line, or an error.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "runtime/formats/tables/sparse_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun::runtime;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto next_line = [&] {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
  };
  const auto header = parse_sparse_header(next_line(), "input");
  if (!header.ok()) {
    return 0;
  }
  while (!text.empty()) {
    const auto row = parse_sparse_row(next_line(), header->labels);
    if (!row.ok()) {
      continue;
    }
    XRUN_CHECK(row->first < header->labels && (row->first >= 0) == (row->labels > 0), "a label is a class");
    const auto done = for_each_sparse_feature(row->features, header->features, [&](int64_t feature, float value) {
      XRUN_CHECK(feature >= 0 && feature < header->features && std::isfinite(value), "a pair is within its limits");
    });
    (void)done.ok();
  }
  return 0;
}
