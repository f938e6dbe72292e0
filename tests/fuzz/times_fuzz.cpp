// Fuzzes files of kernel times: an accepted file has exactly the text that its values are written as. The digest of the
// file is not checked, since otherwise nothing after it would be reached.
#include <cstdint>
#include <string>

#include "graph/base/check.h"
#include "runtime/cli/model/kernel_times.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = "xrun kernel times 1\nhere\n" + std::string(reinterpret_cast<const char*>(data), size);
  const auto times = xrun::runtime::parse_kernel_times(text, "here");
  XRUN_CHECK(!times || xrun::runtime::print_kernel_times(*times, "here") == text, "times have one text");
  return 0;
}
