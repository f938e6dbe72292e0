// A source with its bindings: turns any sample into one row of each input of the graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/graph.h"
#include "graph/specs.h"
#include "runtime/data/label_faults.h"
#include "runtime/data/reader.h"
#include "runtime/data/row_labels.h"
#include "runtime/data/transform.h"
#include "runtime/train/batch_source.h"
#include "runtime/train/class_tables.h"

namespace xrun::runtime {

// The memory that decoding takes.
struct Decoding {
  Bytes bytes = 0;      // memory of a worker and its decoder; 0: nothing is decoded
  std::string picture;  // the picture that needs it: "a/1.png of 8192 x 8192"
};

// Immutable once opened; `fill` may be called by any number of threads, each with its own scratch memory.
class SampleRows {
 public:
  // Opens `source` of `data` and compiles a transform for each input of `graph` that data fills: by a binding, or by
  // the field of its own name. Inputs with a dot in their names are made by the program, not by data. Errors: those of
  // open_reader and Transform::compile; XG0402 more classes than the head has; XG0414 an input that nothing fills;
  // XG0413 no such source.
  static Result<std::unique_ptr<SampleRows>> open(const DataSpec& data, std::string_view source, const Graph& graph,
                                                  StopFlag stop = nullptr);
  // Opens a source for predictions, which need only the inputs `needed`. The others, labels, become zeros; a source may
  // lack them, and `label` returns them if it has them.
  static Result<std::unique_ptr<SampleRows>> open_for(const std::vector<std::string>& needed, const DataSpec& data,
                                                      std::string_view source, const Graph& graph);
  // Opens only the header (open_header): everything that is known before a sample is decoded. `fill` must not be
  // called.
  static Result<std::unique_ptr<SampleRows>> open_header(const DataSpec& data, std::string_view source,
                                                         const Graph& graph);

  // Makes the rows of an open reader; `data` has the bindings, and `span` is the call of the reader.
  static Result<std::unique_ptr<SampleRows>> make(std::string name, std::unique_ptr<Reader> reader,
                                                  const DataSpec& data, const Graph& graph, const Span& span = {},
                                                  const std::vector<std::string>* needed = nullptr);

  const std::string& name() const { return name_; }
  const Reader& reader() const { return *reader_; }
  int64_t samples() const { return reader_->samples(); }

  // The classes of each input of class numbers, as this source numbers them: texts of a column, the names that the
  // reader returns, or numbers.
  const ClassTables& classes() const { return classes_; }
  // Gives each class the number that it has in `trained`, by its name, for each input whose table `trained` has.
  // `classes` does not change. Errors: XG0402 a class that `trained` lacks, or names where `trained` has numbers and
  // the reverse. REQUIRES: `fill` has not been called.
  Status number_by(const ClassTables& trained);

  // The class of each sample, from the labels of this input; -1 for broken samples and those without a label, an error
  // if all are broken. Errors: those of `fill`; kInterrupted soon after `stop` is set.
  Result<std::vector<int32_t>> labels_of(std::string_view input, StopFlag stop = nullptr) const;
  // Makes `fill` also write the weight of the row's class, weights[label], into the input `to`, if `graph` has it.
  void weigh(const Graph& graph, std::string_view labels, std::string_view to, std::vector<float> weights);

  // Writes row number `row` of those inputs of `batch` that want it (BatchView::wants). Errors name source and sample;
  // is_broken_sample reports whether another sample may replace it. `labels` of the row, by partial label, are also
  // written for inputs that `batch` does not want, but not the factors that follow from all rows. Empty: they are not
  // needed.
  Status fill(int64_t sample, const DrawKey& key, AugmentScratch& scratch, const BatchView& batch, int64_t row,
              std::span<RowLabel> labels = {}) const;
  // The labels that samples of this source may lack, in the order of the inputs.
  const std::vector<PartialLabel>& partial_labels() const { return partial_; }

  // The class of a sample for an input; nothing if the input takes no classes from the source or the sample has no
  // label, for example if its value is missing. Errors: those of `fill`.
  Result<std::optional<int64_t>> label(std::string_view input, int64_t sample, AugmentScratch& scratch) const;

  // The memory of a worker for decoding the largest picture of looked_samples, from the headers of the pictures;
  // unreadable pictures are skipped. Also after open_header.
  Decoding decoding() const;

  // A digest of the rows of looked_samples as an evaluation reads them; a sample that cannot be read counts with the
  // code of its error. Hosts with other data have another digest, unless only other samples differ.
  std::string contents() const;

  // Warnings for inputs whose mean over the rows of a batch that this process reads is far from 0 (XG0816): networks
  // are designed for inputs around 0, and nothing else shows why pixels of 0 to 255 train badly.
  std::vector<Error> look_at(const BatchView& batch, int64_t rows) const;

  // Warnings of the reader, each with the name of the source and the place of its call.
  std::vector<Error> warnings() const;

  // Zeroes row `row`, for a sample that cannot be read in an evaluation.
  void zero(const BatchView& batch, int64_t row) const;

 private:
  struct Input {
    std::string name;
    size_t index = 0;  // position in Graph::inputs
    int field = 0;
    bool is_label = false;  // one class per sample, i32
    bool needed = true;     // otherwise it becomes zeros
    LabelPlaces places;
    Transform transform;
  };

  // Adds an input that the field fills. Errors: those of Transform::compile; XG0402.
  Status add_input(size_t index, const DataBinding& binding, int field, const DataSpec& data, const Graph& graph);
  void zero_input(const Input& input, const BatchView& batch, int64_t row) const;

  // Reads an input of a sample; errors lack the input's name, which fill_input adds with the place.
  Status read_input(const Input& input, int64_t sample, const DrawKey& key, AugmentScratch& scratch,
                    std::byte* to) const;
  Status fill_input(const Input& input, int64_t sample, const DrawKey& key, AugmentScratch& scratch,
                    std::byte* to) const;
  Status count_labels(int64_t sample, AugmentScratch& scratch, std::span<RowLabel> labels) const;
  float weight_of(int32_t label) const;

  std::string name_;
  Span span_;
  std::unique_ptr<Reader> reader_;
  std::vector<Input> inputs_;
  ClassTables classes_;
  std::vector<PartialLabel> partial_;
  std::vector<float> weights_;  // index: class; empty: no weights
  size_t weigh_by_ = 0;         // position of the labels in Graph::inputs
  size_t weigh_to_ = 0;         // position of the weights in Graph::inputs
};

// Whether the error is a fault of one sample's content (XG0412), which may be replaced, up to `max_bad` of the samples.
bool is_broken_sample(const Error& error);

}  // namespace xrun::runtime
