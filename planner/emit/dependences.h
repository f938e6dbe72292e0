// Derives the dependencies between instructions from the buffers that they read and write, and from buffers that share
// memory.
#pragma once

#include <vector>

#include "planner/program/program.h"

namespace xrun::planner {

// Fills `deps` and `releases` of every instruction of a program whose buffers have been placed. An instruction waits
// for the last writer of each buffer that it reads, for the last writer and all readers of each buffer that it writes,
// and, if a buffer takes the memory of an earlier one, for all instructions that touched the earlier one. Dependencies
// that follow from others or from the order of streams are left out. The list of instructions stays a legal order.
void derive_dependences(Program& program);

}  // namespace xrun::planner
