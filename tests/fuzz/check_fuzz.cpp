// Any text: the whole front end ends within its bounds and reports what it finds; no file is opened.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fuzz/check_input.h"
#include "tests/lang/test_ops.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const xrun::OpRegistry ops = xrun::test_ops::registry();
  const std::string fault =
      xrun::lang::fault_of_check("fuzz.xgraph", std::string(reinterpret_cast<const char*>(data), size), ops);
  if (!fault.empty()) {
    std::fprintf(stderr, "%s\n", fault.c_str());
    std::abort();
  }
  return 0;
}
