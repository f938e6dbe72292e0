// Times of layers that another program measured, in the text format of PipeDream's profiler: a line for each layer and
// a line for each layer that reads the result of another one.
//
//   node1 -- Input -- forward_compute_time=9.1, backward_compute_time=0.0, activation_size=3853.0, parameter_size=0.0
//   node2 -- Conv2d(3, 64) -- forward_compute_time=1.2, ...
//       node1 -- node2
//
// Times are in milliseconds and sizes in bytes; a layer with several results has a list of sizes, [8.0; 4.0]. Lines of
// edges begin with a tab. Source: the profiles in github.com/msr-fiddle/pipedream.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::planner {

struct ProfiledLayer {
  std::string name;  // "node2"
  std::string kind;  // "Conv2d(3, 64)"
  Seconds forward = 0;
  Seconds backward = 0;
  bool is_input = false;  // reads the batch, which is no work of a stage
  Seconds time() const { return is_input ? 0 : forward + backward; }
};

struct LayerProfile {
  std::vector<ProfiledLayer> layers;       // in the order of the text
  std::vector<std::pair<int, int>> edges;  // the second layer reads the result of the first one
  Seconds time() const;                    // the time of all layers
  std::vector<int> sources() const;        // layers that read no other one, without those of the kind "Input"
};

/// Parses a profile. `name` is that of the file in messages. Errors: XG0631 with the line, for a line that is neither a
/// layer nor an edge, a time that is missing, there twice, negative or above 10^9 ms, a layer that is missing or there
/// twice, a cycle, layers without edges, and more than 100,000 layers or 1,000,000 edges.
Result<LayerProfile> parse_profile(std::string_view text, std::string_view name);

}  // namespace xrun::planner
