// What must come before what: dependencies from reads, writes and shared memory, and the clocks that tell whether one
// instruction is known to end before another begins.
#pragma once

#include <vector>

#include "planner/program.h"

namespace xrun::planner {

// Fills `deps` of every instruction of a program whose buffers have been placed: after the last writer of what it
// reads; after the last writer and all readers of what it writes; and, where a buffer takes the memory of an earlier
// one, after everybody who touched that. What the order of streams or other dependencies imply already is left out. The
// list of instructions is a legal sequential order and stays one.
void derive_dependences(Program& program);

}  // namespace xrun::planner
