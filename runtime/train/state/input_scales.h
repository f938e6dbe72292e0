// The means and deviations by which a run standardizes its inputs. They are measured on the training source,
// checkpoints store them, and sources that are opened later are standardized by the same numbers.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace xrun::runtime {

// The numbers of one input of the graph, one for each column.
struct InputScale {
  std::string input;
  std::vector<double> means;
  std::vector<double> deviations;  // above 0, and as many as means

  bool operator==(const InputScale&) const = default;
};

// In the order of Graph::inputs.
using InputScales = std::vector<InputScale>;

inline const InputScale* find_scale(const InputScales& scales, std::string_view input) {  // null: not found
  const auto found = std::ranges::find(scales, input, &InputScale::input);
  return found == scales.end() ? nullptr : &*found;
}

}  // namespace xrun::runtime
