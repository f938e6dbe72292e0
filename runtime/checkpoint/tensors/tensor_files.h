// Reads the tensors of a checkpoint into a state, from the files of state_files.h and from files of class rows
// (class_row_files.h).
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/checkpoint/tensors/class_match.h"
#include "runtime/checkpoint/tensors/mismatch.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// Fills `state`, which may be divided into other shards than the run that saved. Tensors are found by their names after
// the renamings in `moved`. All tensors are found before the first one is written, so if one is missing, nothing
// changes. Rows that the state has mapped from the checkpoint are skipped. REQUIRES: the files have been verified.
// Errors: XG0702, XG0719; those of read_headers and StoredFile::open.
Status read_state(const CheckpointInfo& info, TrainState& state, bool optimizer, std::span<const Moved> moved = {});

// Data for the initial values of class rows that a checkpoint does not contain.
struct FirstRows {
  uint64_t seed = 0;
  std::span<const Moved> moved;
};
// Reads the state of a run that resumes with more classes: `parts` may have more rows than the checkpoint. Optimizer
// states are also read. Stored rows keep their numbers, and the rows after them get initial values.
Status read_grown_state(const CheckpointInfo& info, TrainState& state, const std::vector<ClassPart>& parts,
                        const FirstRows& first);
// Reads the state that a new run starts from, without optimizer states. The rows of `parts` are placed by their maps,
// and rows that the checkpoint lacks get initial values. Tensors at and below the paths in `skip` stay unchanged. A
// part for which the checkpoint has no row, or rows of another form, also stays unchanged and is returned as fresh.
Result<StartedParts> start_state(const CheckpointInfo& info, TrainState& state, const std::vector<std::string>& skip,
                                 const std::vector<ClassPart>& parts, const FirstRows& first);

// Returns the number of senders (replicas or nodes) whose residuals of compressed gradients are stored; 0 if `state`
// has no residuals. If `state` has another number of senders, read_state redistributes the residuals. Errors: those of
// read_headers.
Result<int64_t> residual_senders(const CheckpointInfo& info, const TrainState& state,
                                 std::span<const Moved> moved = {});

// The stored tensors, sorted by name. Errors: those of read_headers.
Result<std::vector<StoredTensor>> list_state(const CheckpointInfo& info);

}  // namespace xrun::runtime
