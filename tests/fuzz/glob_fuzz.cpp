// Fuzzes glob patterns: the part before the first zero byte is the pattern, and the rest is the name.
#include <cstdint>
#include <string_view>

#include "runtime/data/readers/glob.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  const auto glob = xrun::runtime::Glob::parse(text.substr(0, end));
  if (glob.ok() && end != std::string_view::npos) {
    glob->matches(text.substr(end + 1));
  }
  return 0;
}
