// The independent verifier of programs: it shares no code with emit except the sizes of tensors, and trusts only the
// module. The executor may run any program that it accepts without further checks.
#pragma once

#include "graph/base/result.h"
#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

// Runs all checks below. `memory`: the bytes that all arenas together may take; 0: no bound. Errors: kContent XG0622
// with the first fault found, and its instruction or buffer.
Status verify_program(const Program& program, const Module& module, Bytes memory = 0);

// Every number and index is in its range, so that the other checks may use it for look-ups; ids of the graph are
// checked against `graph` if given; there are no more instructions and buffers than the other checks can handle. Linear
// in the size of the program.
Status verify_structure(const Program& program, const Graph* graph);

// Every pass runs once, sums in ascending order; groups are complete and contiguous, have one order on all of their
// devices and wait for none of their own members, so that no device waits forever; a device computes in one stream and
// communicates in one; class rows are owned once, in whole class blocks. REQUIRES: verify_structure.
Status verify_passes(const Program& program);

// Every block that a member of an exchange sends is received by the member that it names, with equal size, and no other
// block is. REQUIRES: verify_passes.
Status verify_blocks(const Program& program);

// Dependencies point backward; two accesses to one buffer, one of them a write, are ordered; nothing is read before it
// was written. REQUIRES: verify_structure.
Status verify_order(const Program& program);

// Buffers are inside their arenas; those that share bytes are never alive together, in any order of the streams; live
// ranges and sums are those in the program; no more than `memory`. REQUIRES: verify_structure.
Status verify_memory(const Program& program, Bytes memory);

// Compares with the module: heads are its heads; every operand of every node and of every other instruction has a place
// that is large enough; slices of workers have space for all values that are alive together; every forward node is in
// one stage, in order. REQUIRES: verify_structure and verify_passes.
Status verify_operands(const Program& program, const Module& module);

}  // namespace xrun::planner
