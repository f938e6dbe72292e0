// Fuzzes the user's times of layers: accepted times are finite, those of each layer are there once, and each layer has
// a line of the text.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string_view>

#include "graph/base/check.h"
#include "planner/profiles/layer_times.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto times = xrun::planner::parse_layer_times(text, "t");
  if (times.ok()) {
    XRUN_CHECK(times->rows >= 1 && !times->layers.empty(), "there are rows and layers");
    const auto lines = std::ranges::count(text, '\n') + 1;
    std::set<std::string_view> names;
    for (const xrun::planner::TimedLayer& layer : times->layers) {
      XRUN_CHECK(names.insert(layer.name).second, "a layer is there once");
      XRUN_CHECK(layer.line >= 1 && layer.line <= lines, "a layer has a line");
      XRUN_CHECK(std::isfinite(layer.forward) && layer.forward >= 0, "a forward time is finite");
      XRUN_CHECK(std::isfinite(layer.backward.value_or(0)) && layer.backward.value_or(0) >= 0,
                 "a backward time is finite");
    }
  } else {
    XRUN_CHECK(times.error().code == "XG0632", "a fault of the text has its code");
  }
  return 0;
}
