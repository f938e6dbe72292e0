// The independent verifier of programs: it shares no code with emit except the sizes of tensors, and trusts only the
// module. The executor may run any program that it accepts without further checks.
#pragma once

#include "graph/base/result.h"
#include "graph/module.h"
#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner {

// Runs all checks below. `memory`: maximum bytes of all arenas together; 0: no limit. Errors: kContent XG0622 with the
// first fault found, and its instruction or buffer.
Status verify_program(const Program& program, const Module& module, Bytes memory = 0);

// Checks that every number and index is in its range, so that the other checks may use it for look-ups, and that there
// are not more instructions and buffers than the other checks can handle. Ids of nodes, values and parameters are
// checked only if `graph` is given. Takes time linear in the size of the program.
Status verify_structure(const Program& program, const Graph* graph);

// Checks the order of passes and exchanges. REQUIRES: verify_structure.
//   - Every pass runs once, and passes that add to one sum run in ascending order.
//   - Every group is complete and contiguous in the list of instructions, all devices run groups in the same order, and
//     no member of a group waits for another one, so no device waits forever.
//   - A device has one stream for computations and one for communication.
//   - Every class row has one owner, and an owner has whole class blocks.
Status verify_passes(const Program& program);

// Checks that dependencies are earlier instructions, that two accesses to the same bytes are ordered if one of them is
// a write, and that nothing is read before it is written. REQUIRES: verify_structure.
Status verify_order(const Program& program);

// Checks that buffers are inside their arenas, that buffers which share bytes are never alive at the same time in any
// order that the streams permit, that the live ranges and sizes in the program are right, and that all arenas together
// take at most `memory` bytes (0: no limit). REQUIRES: verify_structure.
Status verify_memory(const Program& program, Bytes memory);

// Compares the program with the module. The heads are equal, buffers are large enough, and every forward node is in one
// stage, in order. Then the program runs over symbols (planner/verify/symbolic_run.h): every operand is inside its
// buffer and has the alignment and the size that the executor relies on, every block that is sent is received, every
// instruction reads what the module asks for, of this step, and the step ends with all weights updated and all results
// complete. REQUIRES: verify_structure, verify_passes, verify_order and verify_memory have accepted the program.
Status verify_module(const Program& program, const Module& module);

// Checks that a training program keeps the hints of the module's schedule, and that no device needs more than its
// `memory_limit`. Errors: kContent XG0625 with the place of the hint. REQUIRES: verify_module, and the devices of the
// program are those of `machine`.
Status verify_hints(const Program& program, const Module& module, const Machine& machine);

}  // namespace xrun::planner
