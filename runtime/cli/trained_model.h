// The model that a checkpoint was trained from: its text is kept in the checkpoint and elaborated again where the
// checkpoint is used.
#pragma once

#include <optional>
#include <string>

#include "runtime/checkpoint/model_text.h"
#include "runtime/checkpoint/store.h"
#include "runtime/cli/planned.h"

namespace xrun::cli {

// A plan for a checkpoint: from FILE or PLAN, or with an empty `path` from the model in the checkpoint, with the flags
// of its run, which the given ones override.
std::optional<PlannedModel> plan_for(const Result<runtime::CheckpointInfo>& checkpoint, const std::string& path,
                                     const GlobalOptions& options, const Console& console, int& exit);

// Checks that the checkpoint is there and that FILE computes the same from its inputs as the checkpoint's own model.
// The second check is skipped if `path` is empty, `anyway` is set, the checkpoint holds no text that this version
// accepts, or tensors have other names or types, which loading reports. Errors: opening's; XG0705 with the differences.
Status check_checkpoint(const PlannedModel& planned, const std::string& path, bool anyway,
                        const Result<runtime::CheckpointInfo>& checkpoint);

// The classes that the checkpoint was trained with, by input, under the names that the file gives them now. Errors:
// those of read_classes.
Result<runtime::ClassTables> trained_classes(const PlannedModel& planned, const runtime::CheckpointInfo& info);

// The differences between the model, data and training in a checkpoint and those of a file; empty if the checkpoint
// holds no model.
runtime::RunDifference difference_from(const runtime::CheckpointInfo& info, const lang::CheckedFile& file);

// Checks that the checkpoint that `init` names is there. Errors: those of opening it, at the line that names it.
Status check_init(const lang::CheckedFile& file);

// The text and options of a model, in the form in which a checkpoint that is trained from it keeps them.
runtime::ModelText text_of(const PlannedModel& planned);

}  // namespace xrun::cli
