// The model from which a checkpoint was trained. The checkpoint keeps the model's text, which is elaborated again when
// the checkpoint is used.
#pragma once

#include <string>

#include "runtime/checkpoint/store.h"
#include "runtime/checkpoint/tensors/model_text.h"
#include "runtime/cli/model/planned.h"

namespace xrun::cli {

// Makes a plan for a checkpoint from FILE or PLAN. If `path` is empty, uses the model in the checkpoint with the flags
// of its run, which given flags override.
Outcome<PlannedModel> plan_for(const Result<runtime::CheckpointInfo>& checkpoint, const std::string& path,
                               const GlobalOptions& options, const Console& console);

// Checks that the checkpoint exists, and that FILE computes the same from its inputs as the checkpoint's model. The
// second check is skipped if `path` is empty, if `anyway` is set, if the checkpoint holds no text that this version
// accepts, or if tensors have other names or types, which loading reports. `f32_inputs`: that of the options with
// which FILE was planned. Errors: those of opening it; XG0705 with the differences.
Status check_checkpoint(const PlannedModel& planned, const std::string& path, bool anyway,
                        const Result<runtime::CheckpointInfo>& checkpoint, bool f32_inputs = false);

// The classes with which the checkpoint was trained, for each input, under the input's name in the file. Errors: those
// of read_classes.
Result<runtime::ClassTables> trained_classes(const PlannedModel& planned, const runtime::CheckpointInfo& info);

// Compares the model, data and training in a checkpoint with those of a file. Empty if the checkpoint holds no model.
runtime::RunDifference difference_from(const runtime::CheckpointInfo& info, const lang::CheckedFile& file);

// Checks that the checkpoint named by `init` exists. Errors: those of opening it, with the place of `init`.
Status check_init(const lang::CheckedFile& file);

// The text and options of a model, as a checkpoint keeps them.
runtime::ModelText text_of(const PlannedModel& planned);

}  // namespace xrun::cli
