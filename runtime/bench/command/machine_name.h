// The line "machine" of a report of `xrun bench`.
#pragma once

#include <string>
#include <string_view>

#include "runtime/device/host.h"

namespace xrun::cli {

// "AMD EPYC 9454, 48 cores, avx512, 8 x NVIDIA H100 80GB HBM3", without an empty instruction set and without GPUs if
// there are none. No benchmark uses the GPUs.
std::string machine_name(const runtime::Host& host, std::string_view instruction_set = "");

}  // namespace xrun::cli
