// The line "machine" of a report of `xrun bench`.
#pragma once

#include <string>
#include <string_view>

#include "runtime/device/host.h"

namespace xrun::cli {

// Returns "AMD EPYC 9454, 48 cores, avx512, 8 x NVIDIA H100 80GB HBM3", without the instruction set if it is empty, and
// without GPUs if the driver finds no GPU. Benchmarks do not use the GPUs.
std::string machine_name(const runtime::Host& host, std::string_view instruction_set = "");

}  // namespace xrun::cli
