// A source with its bindings: turns any sample into one row of each input of the graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/graph.h"
#include "graph/settings/specs.h"
#include "runtime/data/mixed_rows.h"
#include "runtime/data/readers/reader.h"
#include "runtime/data/row_input.h"
#include "runtime/data/row_labels.h"
#include "runtime/train/session/batch_source.h"
#include "runtime/train/state/class_tables.h"
#include "runtime/train/state/input_scales.h"

namespace xrun::runtime {

// The memory that decoding pictures takes.
struct Decoding {
  Bytes bytes = 0;      // memory of a worker and its decoder; 0: nothing is decoded
  std::string picture;  // the picture that needs most of it: "a/1.png of 8192 x 8192"
};

// The samples of a source as rows of a graph's inputs. Immutable once opened; any number of threads may call `fill`,
// each with its own scratch memory.
class SampleRows {
 public:
  // Opens `source` of `data` and compiles a transform for each input of `graph` that is filled from data: by a binding,
  // or from the field with the input's name. Inputs with a dot in their names are made by the program, not from data.
  // Errors: those of open_reader and Transform::compile; XG0402 the source has more classes than the head; XG0414 an
  // input has no binding and no field; XG0413 there is no such source.
  //   needed  the inputs that are needed; null: all. All other inputs, such as labels, are filled with zeros, and the
  //           source may lack them. `label` returns the labels that the source has.
  static Result<std::unique_ptr<SampleRows>> open(const DataSpec& data, std::string_view source, const Graph& graph,
                                                  StopFlag stop = nullptr,
                                                  const std::vector<std::string>* needed = nullptr);
  // Opens only the header (open_header): everything that is known before a sample is decoded. `fill` must not be
  // called.
  static Result<std::unique_ptr<SampleRows>> open_header(const DataSpec& data, std::string_view source,
                                                         const Graph& graph,
                                                         const std::vector<std::string>* needed = nullptr);

  // Makes the rows of an open reader; `data` has the bindings, and `span` is the call of the reader.
  static Result<std::unique_ptr<SampleRows>> make(std::string name, std::unique_ptr<Reader> reader,
                                                  const DataSpec& data, const Graph& graph, const Span& span = {},
                                                  const std::vector<std::string>* needed = nullptr);

  const std::string& name() const { return name_; }
  const Reader& reader() const { return *reader_; }
  int64_t samples() const { return reader_->samples(); }

  // For each input with class numbers: the classes in the order of this source's numbers. Their names are the texts of
  // a column or the reader's class names, or they are plain numbers.
  const ClassTables& classes() const { return classes_; }
  // Renumbers classes by name, so that each class has its number in `trained`, for each input with a table in
  // `trained`. `classes` does not change. Errors: XG0402 a class is missing in `trained`, or one side has names and the
  // other has numbers. REQUIRES: `fill` has not been called.
  Status number_by(const ClassTables& trained);

  // Sets the means and deviations of each input with `standardize`, and returns them: those of `trained`, if it has
  // the input, or else those that are measured on this source, which is then the training source.
  //   warnings  receives XG0429: columns with only one value
  // Errors: those of measure_scale. REQUIRES: `fill` has not been called.
  Result<InputScales> settle_scales(const InputScales& trained, std::vector<Error>& warnings, StopFlag stop = nullptr);
  // Sets them to those of training. Errors: XG0705 `trained` lacks an input. REQUIRES: `fill` has not been called.
  Status scale_by(const InputScales& trained);

  // If this source is a table: a warning that counts the rows with cells that the bindings cannot use (XG0412). They
  // are broken samples.
  std::optional<Error> broken_cells() const;
  // If a binding has `ngrams`: a warning that counts the texts with more n-grams than a row holds (XG0430). Of more
  // than 2^18 samples, that many are read, evenly spread.
  std::optional<Error> cut_texts() const;

  // Warnings XG0419 about heads with more classes than this source has, as far as its classes are known.
  std::vector<Error> spare_classes() const;

  // The class of each sample, from the labels of this input; -1 for a broken sample or one without a label. Errors: all
  // samples are broken; those of `fill`; kInterrupted soon after `stop` is set.
  Result<std::vector<int32_t>> labels_of(std::string_view input, StopFlag stop = nullptr) const;
  // Makes `fill` also write the weight of the row's class, weights[label], into the input `to`, if `graph` has it.
  void weigh(const Graph& graph, std::string_view labels, std::string_view to, std::vector<float> weights);

  // Writes row `row` of those inputs that `batch` wants (BatchView::wants). Errors contain source and sample;
  // is_broken_sample decides whether another sample may replace it. `labels` receives the row's labels by partial
  // label, also for inputs that `batch` does not want; the caller computes the loss factors from all rows. Empty: no
  // labels are needed.
  Status fill(int64_t sample, const DrawKey& key, AugmentScratch& scratch, const BatchView& batch, int64_t row,
              std::span<RowLabel> labels = {}) const;
  // Whether a binding mixes samples; then `mix` follows `fill` for each row of a training batch.
  bool mixes() const { return mix_.mixes; }
  // Mixes row `row`, which `fill` has written for `own`, with the sample `partner`, and writes labels and shares
  // (graph/layouts/mixed_labels.h) of the row into those inputs that `batch` wants. Returns how the row was mixed.
  // Errors: those of `fill` about the partner; another partner may then be tried. REQUIRES: mixes().
  Result<Mix> mix(const DrawnSample& own, const DrawnSample& partner, AugmentScratch& scratch, const BatchView& batch,
                  int64_t row) const;
  // The labels that samples of this source may lack, in the order of the inputs.
  const std::vector<PartialLabel>& partial_labels() const { return partial_; }

  // The class of a sample for an input; nullopt if the input takes no classes from the source, or the label of the
  // sample is missing or broken. Errors: those of `fill`. For the name of a bool field such as kPairField: its value,
  // 0 or 1; a broken one is an error.
  Result<std::optional<int64_t>> label(std::string_view input, int64_t sample, AugmentScratch& scratch) const;

  // The memory that a worker needs to decode the largest picture of looked_samples, according to the pictures' headers.
  // Unreadable pictures are skipped. Also works after open_header.
  Decoding decoding() const;

  // A digest of the rows of looked_samples as an evaluation reads them, to detect hosts with different data.
  // Differences in other samples are not detected. A sample that cannot be read contributes its error code.
  std::string contents() const;

  // Warns of inputs whose mean, over the rows of a batch that this process reads, is far from 0 (XG0816). Networks are
  // designed for inputs around 0, and nothing else shows why pixels of 0 to 255 train badly.
  std::vector<Error> look_at(const BatchView& batch, int64_t rows) const;

  // Warnings of the reader, each with the name of the source and the place of its call.
  std::vector<Error> warnings() const;

  // Zeroes row `row`, for a sample that cannot be read in an evaluation.
  void zero(const BatchView& batch, int64_t row) const;

 private:
  // Adds an input that the field fills. Errors: those of Transform::compile; XG0402.
  Status add_input(size_t index, const DataBinding& binding, int field, const DataSpec& data, const Graph& graph);
  void zero_input(const RowInput& input, const BatchView& batch, int64_t row) const;

  // Reads an input of a sample; fill_input adds the name of the input and the place to the errors.
  Status read_input(const RowInput& input, int64_t sample, const DrawKey& key, AugmentScratch& scratch,
                    std::byte* to) const;
  Status fill_input(const RowInput& input, int64_t sample, const DrawKey& key, AugmentScratch& scratch,
                    std::byte* to) const;
  Status count_labels(int64_t sample, AugmentScratch& scratch, std::span<RowLabel> labels) const;
  float weight_of(int32_t label) const;
  Status write_label(const RowInput& label, const DrawnSample& sample, AugmentScratch& scratch, const BatchView& batch,
                     int64_t row, size_t to, size_t weight_to) const;

  std::string name_;
  Span span_;
  std::unique_ptr<Reader> reader_;
  std::vector<RowInput> inputs_;
  ClassTables classes_;
  std::vector<PartialLabel> partial_;
  MixPlaces mix_;
  std::vector<float> weights_;  // index: class; empty: no weights
  size_t weigh_by_ = 0;         // position of the labels in Graph::inputs
  size_t weigh_to_ = 0;         // position of the weights in Graph::inputs
};

// Whether the error is a fault in the content of a sample (XG0412). A share `max_bad` of the samples may be replaced.
bool is_broken_sample(const Error& error);

}  // namespace xrun::runtime
