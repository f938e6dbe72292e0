// The model that a checkpoint was trained from: its text goes into the checkpoint, and is elaborated again where the
// checkpoint is used.
#pragma once

#include <optional>
#include <string>

#include "runtime/checkpoint/model_text.h"
#include "runtime/checkpoint/store.h"
#include "runtime/cli/planned.h"

namespace xrun::cli {

// A plan for a checkpoint: of FILE or PLAN, or where `path` is empty the model that the checkpoint holds, with the
// flags that its run had and those given on top.
std::optional<PlannedModel> plan_for(const Result<runtime::CheckpointInfo>& checkpoint, const std::string& path,
                                     const GlobalOptions& options, const Console& console, int& exit);

// Whether the checkpoint is there, and FILE computes of its inputs what the checkpoint's own model computes, unless
// `path` is empty or `anyway` is set. Tensors of other names or shapes are told where they are looked for. Errors:
// those of opening; XG0705 with what differs.
Status check_checkpoint(const PlannedModel& planned, const std::string& path, bool anyway,
                        const Result<runtime::CheckpointInfo>& checkpoint);

// How the model, data and training that a checkpoint holds differ from those of a file; empty where it holds none.
runtime::RunDifference difference_from(const runtime::CheckpointInfo& info, const lang::CheckedFile& file);

// Whether the checkpoint that `init` names is there. Errors: those of opening it, at the line that names it.
Status check_init(const lang::CheckedFile& file);

// What a checkpoint keeps of the model that it is trained from.
runtime::ModelText text_of(const PlannedModel& planned);

}  // namespace xrun::cli
