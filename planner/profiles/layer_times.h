// Times that a user has measured for the layers of a model, as JSON:
//
//   {
//     "rows": 64,
//     "layers": {
//       "stem": {"forward_ms": 3.1, "backward_ms": 6.4},
//       "blocks.0": {"forward_ms": 2.2}
//     }
//   }
//
// A time is that of one core for `rows` rows of the batch. A name names all operators whose paths begin with it, as in
// the table `layers` of `xrun show`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::planner {

struct TimedLayer {
  std::string name;
  Seconds forward = 0;
  std::optional<Seconds> backward = {};  // nullopt: as many times the forward time as in the cost model
  int line = 0;                          // line of the name in the file
};

struct LayerTimes {
  std::string file;  // name of the file in messages
  int64_t rows = 1;
  std::vector<TimedLayer> layers;  // in the order of the file
};

/// Parses the times. `name` is that of the file in messages. Errors: XG0632 with the line, for a text that is not JSON,
/// an entry that is missing, unknown, there twice or of another kind, a time that is negative or larger than 10^9 ms,
/// `rows` that are not a whole number from 1 to 10^9, no layers, and more than 100,000 layers.
Result<LayerTimes> parse_layer_times(std::string_view text, std::string_view name);

}  // namespace xrun::planner
