// Any text: the whole front end ends within its bounds and reports what it finds; no file is opened.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lang/frontend.h"
#include "tests/lang/test_ops.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun;
  using namespace xrun::lang;
  static const OpRegistry ops = test_ops::registry();
  SourceMap sources;
  Diagnostics diagnostics;
  // Small bounds, so that an input that uses them up costs milliseconds.
  const lang::FrontendOptions options{.ops = &ops, .max_nodes = 2'000, .max_steps = 50'000};
  const auto checked = lang::check_text("fuzz.xgraph", std::string(reinterpret_cast<const char*>(data), size), sources,
                                        diagnostics, options);
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    if (render(diagnostic, sources).empty()) {
      std::abort();
    }
  }
  // A refusal says why; what is passed has no errors.
  if (checked.has_value() == diagnostics.has_errors()) {
    std::abort();
  }
  return 0;
}
