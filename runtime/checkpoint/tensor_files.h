// The tensor files of a checkpoint: trunk, optimizer states of the trunk, and row ranges of heads. Class rows that lie
// in a file of their own (run_rows.h) are read like the others.
#pragma once

#include <string>
#include <vector>

#include "graph/base/io.h"
#include "graph/base/result.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/mismatch.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

// Writes all tensors, except class rows that lie in files of their own, into new files of `directory`; head files have
// about `range_bytes`. With several ranks, each writes its rows of heads and the other tensors that it is the first to
// have, and the residuals of its replicas, under names of its own. Errors: XG0711; XG0810 a number is not finite.
Result<std::vector<ManifestFile>> write_state(const TrainState& state, const std::string& directory, Bytes range_bytes,
                                              Io& io, int rank = 0);

// Fills `state`, whose shards may be cut in another way. REQUIRES: the files have been verified. Looks up everything
// before it writes anything. Skips rows that the state has mapped from the checkpoint. Errors: XG0702; those of
// read_headers and StoredFile::open.
Status read_state(const CheckpointInfo& info, TrainState& state, bool optimizer);
// The same for a run that starts from the checkpoint, without optimizer states. Leaves everything at and below the
// paths of `skip` as it is, and also heads and the layer of dense logits if they are missing or have other classes:
// these are added to `fresh`.
Status read_state(const CheckpointInfo& info, TrainState& state, const std::vector<std::string>& skip,
                  std::vector<FreshPart>& fresh);

// The number of replicas whose residuals of compressed gradients are stored; 0 if `state` has none. Where it differs
// from that of `state`, read_state redistributes them. Errors: those of read_headers.
Result<int64_t> residual_replicas(const CheckpointInfo& info, const TrainState& state);

// The stored tensors, by name. Errors: those of read_headers.
Result<std::vector<StoredTensor>> list_state(const CheckpointInfo& info);

}  // namespace xrun::runtime
