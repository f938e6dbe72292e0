// Fuzzes profiles of layers: an accepted profile of a few layers can be cut into any number of stages.
#include <cstdint>
#include <string_view>

#include "graph/base/check.h"
#include "planner/profiles/graph_cuts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto profile = xrun::planner::parse_profile({reinterpret_cast<const char*>(data), size}, "p");
  if (profile.ok() && profile->layers.size() <= 16) {
    const int layers = static_cast<int>(profile->layers.size());
    for (const int stages : {1, (layers + 1) / 2, layers}) {
      const auto cuts = xrun::planner::cut_graph(*profile, stages);
      XRUN_CHECK(static_cast<int>(cuts.stages.size()) == stages, "there are as many stages as were asked for");
    }
  }
  return 0;
}
