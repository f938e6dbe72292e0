// Fuzzes the parser with any bytes: it ends, its tree can be printed, and a tree without faults reads back as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lang/syntax/parser.h"
#include "lang/syntax/print_syntax.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun;
  SourceMap sources;
  Diagnostics diagnostics;
  const int32_t file = sources.add("fuzz.xgraph", std::string(reinterpret_cast<const char*>(data), size));
  const lang::Ast ast = lang::parse(sources, file, diagnostics);
  const std::string printed = lang::print_ast(ast);
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    if (render(diagnostic, sources).empty()) {
      std::abort();
    }
  }
  if (!diagnostics.has_errors()) {
    Diagnostics none;
    const lang::Ast again = lang::parse(sources, sources.add("printed.xgraph", printed), none);
    if (none.has_errors() || lang::print_ast(again) != printed) {
      std::abort();
    }
  }
  return 0;
}
