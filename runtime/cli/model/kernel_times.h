// Times of kernels on disk (graph/os/cache_file.h), so that only the first plan with measured costs has to measure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/facts/facts.h"

namespace xrun::runtime {

// Describes in one line everything that the times of this process depend on: instruction set, processor, oneDNN, the
// compiler of loops and this build of xrun. Stored times with another origin are not used.
std::string times_origin(ops::Isa isa, const std::string& cpu);

// Prints the origin, then a line for each kernel. Equal times of one origin give equal texts, and parse_kernel_times
// returns exactly these times.
std::string print_kernel_times(const ops::KernelTimes& times, std::string_view origin);
// Returns nullopt if `text` is not exactly a text that print_kernel_times writes for this origin.
std::optional<ops::KernelTimes> parse_kernel_times(std::string_view text, std::string_view origin);

// The path of the file for an origin; empty without a cache directory.
std::string kernel_times_path(std::string_view origin);
// Loads the times from the file. There are no times if the file is missing or damaged.
ops::KernelTimes load_kernel_times(const std::string& path, std::string_view origin);
// Stores the times; errors are ignored. If a file cannot hold them all, it leaves out those that this process did not
// use.
void store_kernel_times(const std::string& path, std::string_view origin, ops::KernelTimes times);

}  // namespace xrun::runtime
