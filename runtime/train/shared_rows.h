// Broken samples of ranks that each read their own rows: a sample that one rank finds broken is broken for all, so that
// all ranks have the same samples in the same rows as a single process.
#pragma once

#include "runtime/comm/peers.h"
#include "runtime/train/batch_source.h"

namespace xrun::runtime {

// Waits for the batch of `step` on all ranks, and until all have the same samples in it. Collective; `peers` is null
// if one process has all rows. Errors: that of any rank.
Status wait_for_batch(BatchSource& batches, int64_t step, Peers* peers);

// Like wait_for_batch, for a batch of an evaluation or prediction that was begun: afterwards broken_rows of `source`
// has those of all ranks. `mine`: an error of this rank, which then fails on all ranks.
Status finish_rows(RowSource& source, Peers* peers, Status mine);

}  // namespace xrun::runtime
