// The interfaces through which the trainer gets its rows: BatchSource for training, RowSource for evaluation and
// prediction. The loader (runtime/data) implements both on top of readers; tests have simple implementations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun {
struct TemplatePairs;  // graph/settings/template_pairs.h
}

namespace xrun::runtime {

// Rows [begin, end) of a batch.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const RowRange&) const = default;
};

// The memory to which a batch is written.
struct BatchView {
  // The start of the memory of each input; index: that of Graph::inputs. The rows of the batch are stored there one
  // after the other (pictures channels-last, graph/types/tensor_type.h). Null for an input that is not filled from
  // data: the gradient of a head, or an input that the program does not read.
  std::vector<std::byte*> inputs;
  // The rows of each input that this process reads (runtime/train/session/rows_read.h); other rows are not filled.
  // Empty: all rows.
  std::vector<RowRange> rows;

  bool wants(size_t input, int64_t row) const {
    return input < inputs.size() && inputs[input] != nullptr &&
           (rows.empty() || (rows[input].begin <= row && row < rows[input].end));
  }
};

// A sample whose content is broken. An evaluation or prediction leaves it out; in a training batch another sample
// replaces it.
struct BrokenRow {
  int64_t row = 0;      // number of the row, counted from the first row that was asked for
  std::string sample;   // name of the sample: "pictures/a/2.png"
  std::string message;  // fault, with the names of sample and source
  int attempt = 0;      // in training batches: the number of samples tried before in this row
};

// Consecutive steps of the same size, and their place in the sequence of all samples of the run: row r of step s has
// the sample at position begin + (s - first) · rows + r.
struct StepRows {
  int64_t first = 0;  // number of the first of these steps
  int64_t rows = 0;   // number of rows in each step
  int64_t begin = 0;  // position of the first row of the first step
};

// Fills training batches before they are used. The plan has a ring of slots in the host arena; each slot has the memory
// of a batch. Batch `step` is a pure function of (data, seed, step): docs/internals/determinism.md, "Order of samples".
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The number of samples in an epoch.
  virtual int64_t samples() const = 0;

  // Begins to fill the batches of first_step, first_step + 1, ... in the background: batch `step` is written to
  // ring[step % ring.size()]. The views stay valid until `stop`. A source may be started again after it was stopped.
  virtual Status start(int64_t first_step, std::span<const BatchView> ring) = 0;
  // Sets the size of the steps that begin from now on, for runs whose batch grows. REQUIRES: the source is stopped.
  virtual void resize(const StepRows& steps) = 0;
  // Whether `wait` would return at once.
  virtual bool ready(int64_t step) = 0;
  // Returns when the batch of `step` is complete. REQUIRES: calls with ascending steps. Errors: those of reading.
  virtual Status wait(int64_t step) = 0;
  // Call when the batch of `step` is no longer needed, so its slot may be filled again.
  virtual void release(int64_t step) = 0;
  virtual void stop() = 0;
  // For an input that is a partial label (graph/layouts/partial_labels.h), returns the number of labels that each row
  // has: 0 or 1, or the number of positions with a label if a row has several positions. The result describes the batch
  // of the last `wait` and is valid until the next `wait`. It is empty for an input that is not a partial label.
  virtual std::span<const int32_t> labelled(std::string_view) const { return {}; }
  // The number of broken samples replaced so far.
  virtual int64_t bad_samples() const { return 0; }

  // The next two functions give all ranks the same samples. A rank finds broken samples only in the rows that it reads,
  // so the ranks send each other those that they have found (runtime/train/session/broken_samples.h). Both REQUIRE that
  // the batch of `step` has been waited for and not released. take_broken returns the broken samples in the batch that
  // this process has found since the last call.
  virtual std::vector<BrokenRow> take_broken(int64_t) { return {}; }
  // Replaces the samples of these rows, which other ranks found broken, and fills the rows again. Errors: those of
  // `wait`.
  virtual Status replace(int64_t, std::span<const BrokenRow>) { return {}; }
};

// Reads rows for evaluation and prediction, without shuffling or random augmentation. Samples are numbered in natural
// order (Reader::listing): 2.png comes before 10.png. Threads: one, which must not be a worker.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual std::string_view name() const = 0;  // name of the source in `data`
  virtual int64_t samples() const = 0;
  // The name of a sample, such as "pictures/a/2.png"; empty if samples have no names.
  virtual std::string sample_name(int64_t) const { return {}; }
  // The class of a sample according to the source, for an input of the graph; nullopt if the source has no classes for
  // the input. For the name of a bool field, such as kPairField: its value, 0 or 1. Errors: those of reading; XG0412
  // the value of a bool field is broken.
  virtual Result<std::optional<int64_t>> label(const std::string&, int64_t) { return std::optional<int64_t>(); }
  // The templates that the samples belong to, and their pairs; null if the source has no templates.
  virtual const TemplatePairs* templates() const { return nullptr; }

  // Begins to fill the first `rows` rows of `batch` with samples first, first + 1, ... in the background. REQUIRES: no
  // other batch is in progress; the caller does not access the memory of `batch` until `finish` or `cancel`.
  virtual void begin(int64_t first, int64_t rows, const BatchView& batch) = 0;
  // Returns when the batch that was begun is complete. Errors: those of reading.
  virtual Status finish() = 0;
  // Like BatchSource::labelled, for the batch of the last `finish`. A broken row that this process has found counts as
  // having 0 labels. Valid until the next `finish`.
  virtual std::span<const int32_t> labelled(std::string_view) const { return {}; }
  // The broken rows in the batch of the last `finish`, in ascending order; they are filled with zeros. Valid until the
  // next `finish`.
  virtual std::span<const BrokenRow> broken_rows() const { return {}; }
  // Adds rows of the last batch that other ranks have found broken to `broken_rows`, and fills them with zeros.
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
