// The independent verifier of programs: shares no code with emit but the sizes that tensors ask for, and trusts
// nothing but the module. What it accepts, the executor may run without further questions.
#pragma once

#include "graph/base/result.h"
#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

// Runs all checks below. `memory`: the bytes that all arenas together may take; 0: no bound.
// Errors: kContent XG0622, what is wrong and which instruction or buffer; the first one found.
Status verify_program(const Program& program, const Module& module, Bytes memory = 0);

// Every number and index is inside its range, so that the other checks may look things up; ids of the graph are checked
// against `graph` where given; there are no more instructions and buffers than the other checks can handle. Linear in
// the size of the program.
Status verify_structure(const Program& program, const Graph* graph);

// Every pass is run once, sums in ascending order; groups are complete, stand together, have one order on all of their
// devices and wait for none of their own members, so that no device waits for ever; a device computes in one stream and
// communicates in one; class rows are owned once, in whole class blocks. After verify_structure.
Status verify_passes(const Program& program);

// Every block that a member of an exchange sends is received by the member that it names, with as many bytes, and no
// other block is. After verify_passes.
Status verify_blocks(const Program& program);

// Dependencies point backward; two accesses to one buffer, one of them a write, are ordered; nothing is read before it
// was written. After verify_structure.
Status verify_order(const Program& program);

// Buffers lie inside their arenas; those that share bytes are never alive together, whatever the streams do; live
// ranges and sums are as the program says; no more than `memory`. After verify_structure.
Status verify_memory(const Program& program, Bytes memory);

// Against the module: heads are its heads; every operand of every node and of every other instruction has a place that
// is large enough; slices of workers hold all values that are alive together; every forward node is in one stage, in
// order. After verify_structure and verify_passes.
Status verify_operands(const Program& program, const Module& module);

}  // namespace xrun::planner
