// Reads the tensor files of a checkpoint (state_files.h) into a state. Class rows that are kept in a file of their own
// (run_rows.h) are read like the others.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/class_match.h"
#include "runtime/checkpoint/mismatch.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

// Fills `state`, whose shards may be divided differently. Tensors are found by their names after `moved`. REQUIRES: the
// files have been verified. Looks up everything before it writes anything. Skips rows that the state has mapped from
// the checkpoint. Errors: XG0702, XG0719; those of read_headers and StoredFile::open.
Status read_state(const CheckpointInfo& info, TrainState& state, bool optimizer, std::span<const Moved> moved = {});

// The values of class rows that a checkpoint lacks.
struct FirstRows {
  uint64_t seed = 0;
  std::span<const Moved> moved;
};
// Reads a state to resume from, with optimizer states, if classes were added: `parts` may have more rows than the
// checkpoint. Stored rows keep their numbers, and the rows after them get initial values.
Status read_grown_state(const CheckpointInfo& info, TrainState& state, const std::vector<ClassPart>& parts,
                        const FirstRows& first);
// Reads the state that a new run starts from, without optimizer states. Takes the rows of `parts` by their maps; other
// rows get initial values. Leaves everything at and below the paths of `skip` unchanged, and also parts for which the
// checkpoint has no row, or rows of another form: these are returned as fresh.
Result<StartedParts> start_state(const CheckpointInfo& info, TrainState& state, const std::vector<std::string>& skip,
                                 const std::vector<ClassPart>& parts, const FirstRows& first);

// The number of senders, replicas or nodes, whose residuals of compressed gradients are stored; 0 if `state` has no
// residuals. If it differs from that of `state`, read_state redistributes them. Errors: those of read_headers.
Result<int64_t> residual_senders(const CheckpointInfo& info, const TrainState& state,
                                 std::span<const Moved> moved = {});

// The stored tensors, sorted by name. Errors: those of read_headers.
Result<std::vector<StoredTensor>> list_state(const CheckpointInfo& info);

}  // namespace xrun::runtime
