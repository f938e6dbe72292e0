// Fuzzes the front end with any text: it ends within its limits and reports the faults; no file is opened. Operators,
// readers and optimizers are those of `xrun check`.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ops/op.h"
#include "tests/fuzz/check_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string fault = xrun::lang::fault_of_check(
      "fuzz.xgraph", std::string(reinterpret_cast<const char*>(data), size), xrun::ops::registry());
  if (!fault.empty()) {
    std::fprintf(stderr, "%s\n", fault.c_str());
    std::abort();
  }
  return 0;
}
