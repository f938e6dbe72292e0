// Times of kernels on disk (graph/base/cache_file.h), so that only the first plan with measured costs has to measure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/facts.h"

namespace xrun::runtime {

// The origin of all times that this process measures, as one line: instruction set, processor, oneDNN, the compiler of
// loops and this build of xrun. Times of another origin are not used.
std::string times_origin(ops::Isa isa, const std::string& cpu);

// Stable text: the origin, then a line for each kernel. Times of one origin have exactly one text, and it reads back
// exactly.
std::string print_kernel_times(const ops::KernelTimes& times, std::string_view origin);
// Nullopt if `text` is not, byte for byte, the text of times of this origin.
std::optional<ops::KernelTimes> parse_kernel_times(std::string_view text, std::string_view origin);

// The file for an origin; empty without a cache directory.
std::string kernel_times_path(std::string_view origin);
// No times if there is no such file or it is damaged.
ops::KernelTimes load_kernel_times(const std::string& path, std::string_view origin);
// Best effort. If the times are too many for a file, those that were not used are dropped.
void store_kernel_times(const std::string& path, std::string_view origin, ops::KernelTimes times);

}  // namespace xrun::runtime
