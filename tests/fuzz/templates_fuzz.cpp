// Fuzzes the lists of a set of templates: the text of the pictures up to the first zero byte, then that of the pairs.
#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/data/readers/pairs/template_set.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto end = static_cast<size_t>(std::ranges::find(bytes, std::byte{0}) - bytes.begin());
  const test::MemoryFile pictures(bytes.first(end));
  const test::MemoryFile pairs(bytes.subspan(std::min(end + 1, size)));
  const auto set = runtime::read_template_set(pictures.path(), pairs.path(), kMiB);
  if (!set.ok()) {
    return 0;
  }
  for (size_t i = 0; i < set->begins.size(); ++i) {
    XRUN_CHECK(!set->path_of(i).empty(), "each picture has a path");
    XRUN_CHECK(set->pairs.samples[i].of_template < set->pairs.templates, "each picture has a template");
    XRUN_CHECK(i == 0 || set->pairs.samples[i - 1].of_template <= set->pairs.samples[i].of_template, "sorted");
  }
  for (const TemplatePairs::Pair pair : set->pairs.pairs) {
    XRUN_CHECK(std::max<int64_t>(pair.first, pair.second) < set->pairs.templates, "a pair names templates");
  }
  return 0;
}
