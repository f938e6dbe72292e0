// Fuzzes name tables: any text is parsed or refused with a place and a fix, and a table that is parsed names any
// tensor. The names to look up are the lines of the text itself.
#include <cstdint>
#include <string>

#include "runtime/interchange/import/candidates.h"
#include "runtime/interchange/names/name_tables.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun;
  std::string text(reinterpret_cast<const char*>(data), size);
  if ((size & 1) != 0) {
    text.insert(0, "names 1\n");  // so that half of the inputs get past the heading
  }
  SourceMap sources;
  Diagnostics diagnostics;
  const int32_t file = sources.add("t.names", text);
  const auto table = runtime::table_of_user(sources, file, diagnostics);
  XRUN_CHECK(table.has_value() != diagnostics.has_errors(), "a table with faults, or a refusal without a reason");
  size_t shown = 0;
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    XRUN_CHECK(!diagnostic.fixes.empty() && diagnostic.primary.span.valid(), "a fault without a place or a fix");
    XRUN_CHECK(++shown > 2 || !render(diagnostic, sources).empty(), "a fault that cannot be shown");
  }
  if (!table) {
    return 0;
  }
  const std::string_view view = text;
  size_t looked = 0;
  for (size_t begin = 0; begin < view.size() && looked < 16; ++looked) {
    const size_t end = std::min(view.find('\n', begin), view.size());
    const runtime::NamedTensor named = runtime::look_up(*table, view.substr(begin, end - begin));
    for (const runtime::Candidate& candidate : named.candidates) {
      XRUN_CHECK(candidate.targets.size() == candidate.rule->to.size() && !named.ignored, "a candidate is whole");
    }
    begin = end + 1;
  }
  return 0;
}
