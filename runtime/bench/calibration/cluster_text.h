// The file that `xrun bench --calibrate` writes: a cluster in the language.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/units.h"
#include "graph/settings/calibration.h"

namespace xrun::runtime {

// Returns the text of a file with one cluster, in canonical layout. Numbers have four digits.
//   name  of the cluster; a text that is no name becomes "here"
std::string cluster_text(std::string_view name, std::string_view cpu, int cores, Bytes memory,
                         const Calibration& calibration);

}  // namespace xrun::runtime
