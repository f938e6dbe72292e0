// Broken samples of ranks that each read their own rows: a sample that one rank finds broken is broken for all, so that
// all ranks have the same samples in the same rows, as one process has.
#pragma once

#include "runtime/comm/peers.h"
#include "runtime/train/batch_source.h"

namespace xrun::runtime {

// Waits for the batch of `step` on all ranks, and until all have the same samples in it. Collective; `peers` is null
// where one process has all rows. Errors: that of any rank.
Status wait_for_batch(BatchSource& batches, int64_t step, Peers* peers);

// The same for the batch of an evaluation or prediction that was begun: broken_rows of `source` has those of all ranks.
// `mine`: an error of this rank, which ends the rows of all.
Status finish_rows(RowSource& source, Peers* peers, Status mine);

}  // namespace xrun::runtime
