// The interfaces through which the trainer gets its rows. The loader (runtime/data) implements both over readers; tests
// use sources of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun::runtime {

// Rows [begin, end) of a batch.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const RowRange&) const = default;
};

// Memory of one batch. For each input, by index in Graph::inputs: the first byte of the tensor for all rows of the
// batch, row after row (pictures channels-last, graph/tensor_type.h). Null for inputs that data does not fill
// (gradients of heads, inputs that the program does not read).
struct BatchView {
  std::vector<std::byte*> inputs;
  // The rows of each input that this process reads (runtime/train/rows_read.h); the others are not filled. Empty: all.
  std::vector<RowRange> rows;

  bool wants(size_t input, int64_t row) const {
    return input < inputs.size() && inputs[input] != nullptr &&
           (rows.empty() || (rows[input].begin <= row && row < rows[input].end));
  }
};

// A sample whose content is broken. An evaluation or prediction leaves it out; a training batch replaces it by another
// sample.
struct BrokenRow {
  int64_t row = 0;      // counted from the first row that was asked for
  std::string sample;   // "pictures/a/2.png"
  std::string message;  // names the sample, the source and the fault
  int attempt = 0;      // training batches: the number of samples tried in this row before this one
};

// Consecutive steps of one size: row r of step s is position begin + (s - first) · rows + r of the sequence of
// samples.
struct StepRows {
  int64_t first = 0;
  int64_t rows = 0;
  int64_t begin = 0;
};

// Training batches, filled ahead of their use into the ring of slots that the plan has in the host arena. Batch `step`
// is a pure function of (data, seed, step): docs/internals/determinism.md, "Order of samples".
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Samples in an epoch.
  virtual int64_t samples() const = 0;

  // Begins to fill: batch `step` into ring[step % ring.size()] for step = first_step, first_step + 1, ... The views
  // stay valid until `stop`. A source may be started again after it was stopped.
  virtual Status start(int64_t first_step, std::span<const BatchView> ring) = 0;
  // Sets the rows of the steps that begin from now on, if the batch grows. REQUIRES: stopped.
  virtual void resize(const StepRows& steps) = 0;
  // Whether `wait` would return at once.
  virtual bool ready(int64_t step) = 0;
  // Returns when the batch of `step` is complete. REQUIRES: calls with ascending steps. Errors: those of reading.
  virtual Status wait(int64_t step) = 0;
  // The batch of `step` is no longer read: its slot may be filled again.
  virtual void release(int64_t step) = 0;
  virtual void stop() = 0;
  // The number of labels of each row for a partial label (graph/partial_labels.h): 0 or 1, or the number of the row's
  // positions with a label. Covers all rows of the batch that was waited for last, until the next `wait`; empty for any
  // other input.
  virtual std::span<const int32_t> labelled(std::string_view) const { return {}; }
  // The number of broken samples replaced so far.
  virtual int64_t bad_samples() const { return 0; }

  // A rank fills the rows that it reads, and finds broken samples only among those. So that all ranks have the same
  // samples, each learns which ones the others have found (runtime/train/shared_rows.h). Both functions REQUIRE that
  // the batch of `step` has been waited for and not released. The broken samples of the batch that this process has
  // found since the last call.
  virtual std::vector<BrokenRow> take_broken(int64_t) { return {}; }
  // Replaces these samples, which other ranks found broken: fills their rows anew. Errors: those of `wait`.
  virtual Status replace(int64_t, std::span<const BrokenRow>) { return {}; }
};

// Rows for evaluation and prediction, without shuffling or random augmentation. Sample i is the i-th in natural order
// (Reader::listing): 2.png before 10.png. Threads: one, which must not be a worker.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual std::string_view name() const = 0;  // the name of the source in `data`
  virtual int64_t samples() const = 0;
  // "pictures/a/2.png"; empty if samples have no names.
  virtual std::string sample_name(int64_t) const { return {}; }
  // The class that the source gives the sample for an input of the graph; nullopt if it gives the input no classes.
  // Errors: those of reading.
  virtual Result<std::optional<int64_t>> label(const std::string&, int64_t) { return std::optional<int64_t>(); }

  // Begins to fill the first `rows` rows of `batch` with samples first, first + 1, ... REQUIRES: no other batch is in
  // progress; the caller does not touch the memory of this one until `finish` or `cancel`.
  virtual void begin(int64_t first, int64_t rows, const BatchView& batch) = 0;
  // Returns when the batch that was begun is complete. Errors: those of reading.
  virtual Status finish() = 0;
  // Like BatchSource::labelled, for the batch that `finish` returned last, until the next `finish`; 0 for broken rows
  // that this process has found.
  virtual std::span<const int32_t> labelled(std::string_view) const { return {}; }
  // The broken rows of the batch that `finish` returned last, in order, until the next `finish`. Their memory holds
  // zeros.
  virtual std::span<const BrokenRow> broken_rows() const { return {}; }
  // Adds rows of that batch that other ranks found broken: they are zeroed, and `broken_rows` then includes them.
  // REQUIRES: no other batch is in progress. Errors: XG0408.
  virtual Status add_broken(std::span<const BrokenRow>) { return {}; }
  // Abandons the batch that was begun, if there is one; after the call nothing is written into its memory.
  virtual void cancel() = 0;

  Status read(int64_t first, int64_t rows, const BatchView& batch) {
    begin(first, rows, batch);
    return finish();
  }
};

}  // namespace xrun::runtime
