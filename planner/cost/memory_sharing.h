// The bandwidth of a node's memory, which the workers of all of its devices share while they stream through memory
// (docs/internals/algorithms.md, "Simulation").
#pragma once

#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner {

// Returns the number of workers with which an instruction streams through memory, each at the rate that it has alone; 0
// for instructions that are bound by arithmetic or are exchanges.
int streaming_workers(const Program& program, const Instruction& instruction);

// Returns how many times longer streaming takes than alone if `workers` workers of a node of `machine` stream. The
// number of workers that fill the memory is measured (Machine::filling_workers) or assumed. GPUs have memory of their
// own, so that their factor is 1.
double memory_slowness(const Machine& machine, int workers);

}  // namespace xrun::planner
