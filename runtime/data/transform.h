// A data binding, compiled: `image = pixels -> scale(1 / 255) -> random_affine(...)`, from a field of a source to one
// row of an input of the graph.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/reader_def.h"
#include "graph/specs.h"
#include "runtime/data/augment.h"
#include "runtime/formats/decode.h"

namespace xrun::runtime {

class Transform {
 public:
  // Compiles `binding` for a field of the given (found) type and the input that it feeds. Errors, with the span of the
  // stage or the binding: XG0404 the sample has another shape than the input, XG0409 a stage does not fit what comes
  // in, XG0410 a stage of a later version.
  // `columns`: those of a table (Reader::columns). XG0413 no column of this name; XG0412 numbers from a column of
  // texts, or a label that is empty. `names`: those of the reader's classes, for `ignore`.
  static Result<Transform> compile(const DataBinding& binding, const Field& field, const TensorType& target,
                                   std::span<const CsvColumn> columns = {}, const std::vector<std::string>& names = {});

  // Runs on the value in scratch.source and writes one row of the input: pictures channels-last, numbers in the input's
  // dtype. Errors: XG0412 a broken file, XG0402 a label out of range, XG0404 a sample of another size; without the
  // sample's name.
  Status run(AugmentScratch& scratch, const DrawKey& key, std::byte* out) const;

  // Whether samples, or positions of a row, may have no label, which is -1 (runtime/data/ignore.h).
  bool is_partial() const { return is_partial_; }
  // Texts of `ignore` that no cell contains.
  const std::vector<std::string>& unmatched() const { return unmatched_; }

  // The results are classes 0..classes() - 1; 0: not known before the samples are read.
  int64_t classes() const { return classes_; }

  // Texts that stand for the classes, class 0 first; empty if labels are numbers.
  const std::vector<std::string>& class_names() const { return texts_; }
  // Gives class c of the source the number numbers[c]. REQUIRES: one class a sample; a number for each class.
  void renumber(std::vector<int64_t> numbers) { numbers_ = std::move(numbers); }

  // Memory of a worker and its decoder to make a row from a picture with this header. 0: nothing is decoded.
  Bytes decode_bytes(const PictureHeader& header) const;
  bool decodes() const { return decodes_; }

  // The mean of the numbers in rows that `run` has written; 0 for labels and single numbers, which need not be near 0.
  double mean(const std::byte* rows, int64_t count) const;

  // The input that the binding feeds.
  const TensorType& target() const { return target_; }

  // Bytes of one row.
  Bytes row_bytes() const { return row_bytes_; }

 private:
  Status store_row(AugmentScratch& scratch, std::byte* out) const;

  std::vector<AugmentStep> steps_;
  bool decodes_ = false;     // in the first step
  bool is_partial_ = false;  // some step is `ignore`
  std::vector<std::string> unmatched_;
  TensorType target_;
  int64_t classes_ = 0;
  std::vector<std::string> texts_;
  std::vector<int64_t> numbers_;  // index: class of the source; empty: its own numbers
  Bytes row_bytes_ = 0;
};

}  // namespace xrun::runtime
