// The plan file (.xplan): a Plan as FlatBuffers, identifier XPLN, followed by the SHA-256 of all bytes before it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// The version of the format. It is incremented if readers of the previous version could misread a file.
inline constexpr uint32_t kPlanSchema = 7;

// Returns the contents of the plan file.
std::vector<std::byte> plan_bytes(const Plan& plan);

// Reads a plan without trusting its bytes: checks the digest, runs the FlatBuffers verifier with limits, checks every
// index, and runs the verifier of programs as far as it needs no graph (`check_fresh` does the rest). `name` is for
// messages. Errors: kContent XG0621 for a file that is not a plan, truncated or damaged; XG0624 for a plan of an older
// or newer xrun, or with an operator that is not among `ops`; XG0622 for a program that is not sound.
//   ops  the operators of this program, for Plan::kept, which reports need; null: Plan::kept is not read
Result<Plan> load_plan_bytes(std::span<const std::byte> bytes, const std::string& name = "plan",
                             const OpRegistry* ops = nullptr);

// Checks that a plan can be written to `path`: its directory exists, and no file of another kind would be lost. Errors:
// XG0627, kWorld or kUsage.
Status check_plan_place(const std::string& path);

// Writes a plan file. An existing file at `path` is replaced only after the whole new file is written. Errors: kWorld
// with the path.
Status save_plan(const Plan& plan, const std::string& path);
// Reads a plan file. Errors: those of load_plan_bytes; kContent XG0621 if it does not exist; kWorld if it cannot be
// read.
Result<Plan> load_plan(const std::string& path, const OpRegistry* ops = nullptr);

// Checks that the sources, the mathematics, the kernels and the machine are still those for which the plan was made,
// and that its programs fit the graphs. `training` and `inference` are prepared from the sources as they are now.
// Errors: kContent XG0625 that names the change, with further changes as notes (planner/stale_plan.h); XG0622.
Status check_fresh(const Plan& plan, const Module& training, const KernelFacts& facts, const Machine& machine,
                   const Module* inference = nullptr);

}  // namespace xrun::planner
