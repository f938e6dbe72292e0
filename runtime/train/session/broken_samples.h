// Makes all ranks treat the same samples as broken. Each rank reads only its own rows, and a sample that one rank finds
// broken counts as broken on all ranks. So all ranks have the samples in each row that a single process would have.
#pragma once

#include "runtime/comm/peers.h"
#include "runtime/train/session/batch_source.h"

namespace xrun::runtime {

// Waits until all ranks have read the batch of `step`, with equal samples in each row. Collective; `peers` is null if
// one process has all rows. Errors: the error of any rank.
Status wait_for_batch(BatchSource& batches, int64_t step, Peers* peers);

// Finishes the batch of an evaluation or prediction that all ranks have begun: afterwards broken_rows of `source` has
// the broken rows that any rank has found. Collective, like wait_for_batch. `mine`: if it is an error of this rank, the
// call returns that error on all ranks.
Status finish_rows(RowSource& source, Peers* peers, Status mine);

}  // namespace xrun::runtime
