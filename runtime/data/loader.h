// The loader: fills training batches in the order of a SampleSequence before they are used, by tasks of low priority;
// and rows for evaluation in the order of the reader's listing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/data/order/row_tasks.h"
#include "runtime/data/order/sample_order.h"
#include "runtime/data/sample_rows.h"
#include "runtime/train/session/batch_source.h"

namespace xrun::runtime {

struct LoaderOptions {
  int64_t batch = 0;
  uint64_t seed = 1;
  SampleOrder order = SampleOrder::kShuffled;
  std::vector<int32_t> classes;  // for a balanced order: the class of each sample, for SampleSequence
  double max_bad = 0.001;        // share of the samples that may be broken; more end the run
  int64_t wanted = 0;            // the number of samples that max_bad is a share of; 0: all
  bool sums_loss = false;        // the loss of a batch is the sum over its rows, not the mean
  int workers = 1;               // number of tasks that may run at once
  // Called once for each broken sample, on the thread that calls a method of the BatchSource (wait, replace, stop) or
  // of the RowSource (finish, add_broken, cancel).
  std::function<void(const std::string& message)> on_bad;
  // Called with each warning about the first batch, on the thread that calls `wait`.
  std::function<void(const Error& warning)> on_warning;
  RowTasks::Clock clock;  // times the tasks; null: the system clock
  RowTasks::Patience patience;
};

// Makes the source of training batches. Row r of step s is the sample at position s · batch + r of a SampleSequence,
// until `resize` changes the batch. Epochs follow one another without a gap, so every batch is full. A broken sample is
// replaced by another one, drawn by (seed, epoch, position in the epoch, attempt); the positions of other samples do
// not change. The contents of a batch depend only on data, seed and step, never on threads or time. If a binding mixes
// samples, each row is mixed with the sample of another row of its step (partner_row), which is read a second time.
//
// RowTasks fills the batches: its tasks use workers that the devices leave idle, and no task waits. start, wait,
// release and stop belong to one thread that is not a worker; steps are released in order. Errors of `wait`: XG0408
// more than max_bad of the samples are broken; XG0401, XG0402, XG0404, with the name of the sample.
Result<std::unique_ptr<BatchSource>> make_loader(std::unique_ptr<SampleRows> rows, LoaderOptions options);

// Makes the source of rows for an evaluation: samples first, first + 1, ... of the reader's listing, read with
// DrawKey::training = false. A broken sample becomes a row of zeros that is listed in `broken_rows`. Errors: XG0408
// more than max_bad of the samples are broken. RowTasks also fills these rows.
Result<std::unique_ptr<RowSource>> make_row_source(std::unique_ptr<SampleRows> rows, LoaderOptions options);

}  // namespace xrun::runtime
