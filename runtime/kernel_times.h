// Times of kernels on disk (runtime/cache_file.h), so that only the first plan by measured costs measures.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/facts.h"

namespace xrun::runtime {

// What every time of this process depends on, besides what its own line says: instruction set, processor, oneDNN, and
// this build of xrun. Times of another origin are of no use. One line.
std::string times_origin(ops::Isa isa, const std::string& cpu);

// Stable text: a line a kernel, below the origin. Times of one origin have one text, and it reads back exactly.
std::string print_kernel_times(const ops::KernelTimes& times, std::string_view origin);
// Nothing when `text` is not, byte for byte, the text of times of this origin.
std::optional<ops::KernelTimes> parse_kernel_times(std::string_view text, std::string_view origin);

// The file for an origin; empty without a cache directory.
std::string kernel_times_path(std::string_view origin);
// None when there is no such file, or none that is intact.
ops::KernelTimes load_kernel_times(const std::string& path, std::string_view origin);
// Best effort. Where all are too many for a file, those that were not used are dropped.
void store_kernel_times(const std::string& path, std::string_view origin, ops::KernelTimes times);

}  // namespace xrun::runtime
