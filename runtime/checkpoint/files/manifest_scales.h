// The entry `scales` of a manifest: the means and deviations by which the run standardizes its inputs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "graph/base/result.h"
#include "runtime/checkpoint/files/json_entries.h"
#include "runtime/train/state/input_scales.h"

namespace xrun::runtime {

// Returns the list as JSON: one object for each input, with its name, means and deviations.
nlohmann::ordered_json scales_json(const InputScales& scales);

// Reads the list from the entries of a manifest; `name` is for messages. Errors: XG0710 it is empty or malformed, an
// input is repeated, a number is not finite, or a deviation is not above 0.
Result<InputScales> read_scales(Entries& entries, std::string_view name);

}  // namespace xrun::runtime
