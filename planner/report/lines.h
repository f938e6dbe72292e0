// The lines of the page of `xrun plan`: each has a name and one text. A line that has nothing to report is empty.
#pragma once

#include <string>

#include "graph/module.h"
#include "planner/program/plan.h"
#include "planner/program/run_memory.h"

namespace xrun::planner {

// Returns a number as text, by a pattern of printf. The text has at most 47 characters.
std::string format(const char* pattern, double value);

std::string predicted_line(const Plan& plan, const Module& module);
// Returns a line about the memory of the run, and about that of the largest device if there is a `memory_limit`.
std::string memory_line(const Plan& plan, const Module& module, const RunMemory& memory);

// Returns a line about the bits of results on GPUs and on CPUs; empty for CPUs.
std::string bits_line(const Plan& plan);

// Returns a text about the memory of readers and decoders; empty if it is 0.
std::string readers_text(const RunMemory& memory, const Plan& plan);

// Returns the notes on generated data and on the memory of readers; empty if there are no notes.
std::string data_line(const Plan& plan, const Module& module, const RunMemory& memory);

// Returns a line about the time to build graphs of nearest classes, and the time that builds add to the steps; empty
// without graphs.
std::string graphs_line(const Plan& plan, const Module& module);

// Returns a line about the times and the memory of the first and the last steps of a growing batch; empty if the batch
// does not grow.
std::string growth_line(const Plan& plan);

// Returns lines about class rows in files, which need disk space instead of memory. If `cluster.node.storage` gives the
// rate of the storage, the lines also state the times to read the rows of a step and to save a checkpoint.
std::string disk_lines(const Plan& plan, const Module& module);

// Returns a text about the user's times of layers with which the plan was made; empty if there are none.
std::string layer_times_text(const Plan& plan);
// Returns the line "costs": the machine whose calibration gave the predicted times; empty for other plans.
std::string costs_line(const Plan& plan);
// Returns the processor and the instruction set of the calibration from which the plan's times come; null without one.
const std::string* calibration_of(const Plan& plan);

std::string communication_lines(const Plan& plan);
std::string network_lines(const Plan& plan);  // links between GPUs, and the network
}  // namespace xrun::planner
