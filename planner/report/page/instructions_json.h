// The instructions of a step with their predicted times, as JSON and as CSV (docs/reference/command/show.md,
// "Instructions of a plan").
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/cost/simulate.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// Returns the exchanges and computations of a plan as [{id, device, stream, what, stage, replica, micro_batch, head,
// head_pass, shard, group, ops, first_op, last_op, flops, bytes, seconds, begin, end, after, released, source}].
// `seconds` is the time of the instruction alone, `begin` and `end` are those of the simulated step. Keys that do not
// apply are absent; `first_op`, `last_op` and `source` need Plan::kept.
nlohmann::ordered_json instructions_json(const Plan& plan, const ProgramTimes& times);

// Returns [{device, arena, always, peak: {bytes, seconds, instruction, what}, points: [[seconds, bytes]]}].
nlohmann::ordered_json memory_curves_json(const Plan& plan, const ProgramTimes& times);

// The document {v, plan, step_seconds, data_seconds, instructions, memory_curves}, seconds from the start of the step.
nlohmann::ordered_json gantt_document(const Plan& plan);
std::string gantt_json(const Plan& plan);

// The instructions as CSV with a header, one line each; lists are separated by spaces.
std::string instructions_csv(const Plan& plan);

// A short text that names an instruction: "forward stage 0 micro-batch 3". The parts of a split backward pass are
// "input gradient" and "weight gradient".
std::string label_of(const Program& program, const Instruction& instruction);

// The place of an instruction in the model's text, "face.xgraph:28"; empty if the plan keeps none.
std::string source_of(const Plan& plan, const Instruction& instruction);

}  // namespace xrun::planner
