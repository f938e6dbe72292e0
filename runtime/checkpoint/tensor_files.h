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

// Writes all tensors but class rows in files of their own into new files of `directory`, head files of about
// `range_bytes`. Of several ranks each writes the rows of heads that it has, and the rest of what it is the first to
// have, under names of its own. Errors: XG0711.
Result<std::vector<ManifestFile>> write_state(const TrainState& state, const std::string& directory, Bytes range_bytes,
                                              Io& io, int rank = 0);

// Fills `state`, whose shards may be cut in another way; the files have been verified. Everything is looked up before
// anything is written. Rows that the state has mapped from the checkpoint are there already. Errors: XG0702, XG0710,
// XG0715.
Status read_state(const CheckpointInfo& info, TrainState& state, bool optimizer);
// The same for a run that only begins from it, without optimizer states. What lies at and below the paths of `skip` is
// left as it is, and so are heads and the layer of dense logits where they are not there, or there with other classes:
// these are added to `fresh`.
Status read_state(const CheckpointInfo& info, TrainState& state, const std::vector<std::string>& skip,
                  std::vector<FreshPart>& fresh);

// By name. Errors: XG0710, XG0715.
Result<std::vector<StoredTensor>> list_state(const CheckpointInfo& info);

}  // namespace xrun::runtime
