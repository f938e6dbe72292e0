// A source with its bindings: any sample to one row of each input of the graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/graph.h"
#include "graph/specs.h"
#include "runtime/data/reader.h"
#include "runtime/data/transform.h"
#include "runtime/train/batch_source.h"

namespace xrun::runtime {

// Immutable once opened; `fill` may be called by any number of threads, each with a scratch of its own.
class SampleRows {
 public:
  // Opens `source` of `data` and compiles a transform for each input of `graph` that data fills: by a binding, or by
  // the field of its own name. Inputs with a dot in their names are made by the program, not by data. Errors: those of
  // open_reader and Transform::compile; XG0402 more classes than the head has; XG0414 an input that nothing fills;
  // XG0413 no such source.
  static Result<std::unique_ptr<SampleRows>> open(const DataSpec& data, std::string_view source, const Graph& graph,
                                                  StopFlag stop = nullptr);
  // The same over open_header: all that is known before a sample is decoded. `fill` must not be called.
  static Result<std::unique_ptr<SampleRows>> open_header(const DataSpec& data, std::string_view source,
                                                         const Graph& graph);

  // The same over a reader that is open already; `data` gives the bindings, `span` is the call of the reader.
  static Result<std::unique_ptr<SampleRows>> make(std::string name, std::unique_ptr<Reader> reader,
                                                  const DataSpec& data, const Graph& graph, const Span& span = {});

  const std::string& name() const { return name_; }
  const Reader& reader() const { return *reader_; }
  int64_t samples() const { return reader_->samples(); }

  // Writes row number `row` of `batch`; null inputs are passed over. Errors name source and sample; is_broken tells
  // whether another sample may stand in.
  Status fill(int64_t sample, const DrawKey& key, AugmentScratch& scratch, const BatchView& batch, int64_t row) const;

  // What a worker holds to decode the largest picture among some, evenly spread, whose headers are read; 0 where
  // nothing is decoded. Pictures that cannot be read are passed over. Also after open_header.
  Bytes decode_bytes() const;

  // Zeroes row `row` (a sample that cannot be read in an evaluation).
  void zero(const BatchView& batch, int64_t row) const;

 private:
  struct Input {
    size_t index = 0;  // in Graph::inputs
    int field = 0;
    Span counted;  // where the text says how many classes there are; of labels
    Transform transform;
  };

  std::string name_;
  Span span_;
  std::unique_ptr<Reader> reader_;
  std::vector<Input> inputs_;
};

// A fault of one sample's content (XG0412): it may be replaced, up to `max_bad` of the samples.
bool is_broken_sample(const Error& error);

}  // namespace xrun::runtime
