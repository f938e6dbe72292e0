// Fuzzes manifests of checkpoints: an accepted manifest has exactly the text that its values are written as.
#include <cstdint>
#include <string_view>

#include "runtime/checkpoint/files/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto manifest = xrun::runtime::parse_manifest(text, "input");
  XRUN_CHECK(!manifest.ok() || xrun::runtime::print_manifest(*manifest) == text, "one manifest has one text");
  return 0;
}
