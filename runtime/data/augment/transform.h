// A compiled data binding, such as `image = pixels -> scale(1 / 255) -> random_affine(...)`: it turns a field of a
// source into a row of an input of the graph.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/settings/reader_def.h"
#include "graph/settings/specs.h"
#include "runtime/data/augment/augment.h"
#include "runtime/data/augment/mixing.h"
#include "runtime/formats/pictures/decode.h"

namespace xrun::runtime {

class Transform {
 public:
  // Compiles `binding`, which turns a field of a source, with the sizes found there, into the input `target`.
  //   columns  the columns of a table (Reader::columns)
  //   names    the names of the reader's classes, for `ignore`
  // Errors, with the span of the stage or the binding: XG0404 the sample's shape is not that of the input; XG0409 a
  // stage does not fit the value that it gets; XG0410 a stage of a later version; XG0413 there is no column of this
  // name; XG0412 a column of texts is used as numbers, or a label is empty.
  static Result<Transform> compile(const DataBinding& binding, const Field& field, const TensorType& target,
                                   std::span<const CsvColumn> columns = {}, const std::vector<std::string>& names = {});

  // Runs on the value in scratch.source and writes one row of the input: pictures channels-last, numbers in the input's
  // dtype. Errors, without the sample's name: XG0412 a broken file, XG0402 a label out of range, XG0404 a sample of
  // another size.
  Status run(AugmentScratch& scratch, const DrawKey& key, std::byte* out) const;

  // Whether a sample, or a position of its row, may have no label; the label is then -1
  // (runtime/data/augment/ignore.h).
  bool is_partial() const { return is_partial_; }
  // Texts that `ignore` lists but no cell contains.
  const std::vector<std::string>& unmatched() const { return unmatched_; }

  // The number of classes; `run` writes classes 0..classes() - 1. 0: not known before the samples are read.
  int64_t classes() const { return classes_; }

  // The texts of the classes, class 0 first; empty if labels are numbers.
  const std::vector<std::string>& class_names() const { return texts_; }
  // From now on writes class c of the source as numbers[c]. REQUIRES: one class a sample; a number for each class.
  void renumber(std::vector<int64_t> numbers) { numbers_ = std::move(numbers); }

  // The memory that a worker and its decoder need to make a row from a picture with this header. 0: nothing is decoded.
  Bytes decode_bytes(const PictureHeader& header) const;
  bool decodes() const { return decodes_; }

  // The mean of the numbers in rows that `run` has written; 0 for labels and single numbers, which need not be near 0.
  double mean(const std::byte* rows, int64_t count) const;

  // The input that the binding feeds.
  const TensorType& target() const { return target_; }

  // How finished rows are mixed with those of their partners; nullopt if no stage mixes samples.
  const std::optional<Mixing>& mixing() const { return mixing_; }

  // Whether a stage is `ngrams`; `run` then counts in scratch.ngrams what does not fit.
  bool hashes_ngrams() const;

  // Whether a stage is `standardize`.
  bool standardizes() const { return standardize_ >= 0; }
  // Runs the stages before `standardize` as outside of training, and returns the numbers that it gets, valid until the
  // next run with `scratch`. Errors: those of `run`. REQUIRES: standardizes().
  Result<std::span<const double>> before_standardizing(AugmentScratch& scratch) const;
  // Sets the means and deviations of `standardize`; before that, `run` fails. REQUIRES: standardizes().
  void standardize_by(std::vector<double> means, std::vector<double> deviations);
  // The name in messages of the column whose number is at place `i` of a row: its name in the header, or its position.
  std::string column_label(size_t i) const;
  // Checks the cells of a table's row, in scratch.source, that the binding reads. Errors: XG0412, XG0404.
  Status check_cells(AugmentScratch& scratch) const;

  // Bytes of one row.
  Bytes row_bytes() const { return row_bytes_; }

 private:
  Status check_stage(const CallSpec& call) const;
  Status store_row(AugmentScratch& scratch, std::byte* out) const;

  std::vector<AugmentStep> steps_;
  std::optional<Mixing> mixing_;
  int64_t standardize_ = -1;  // position of `standardize` in `steps_`; -1: there is none
  bool decodes_ = false;      // whether the first step decodes a picture
  bool is_partial_ = false;   // whether a step is `ignore`
  std::vector<std::string> unmatched_;
  TensorType target_;
  int64_t classes_ = 0;
  std::vector<std::string> texts_;
  std::vector<int64_t> numbers_;  // index: class of the source; empty: classes keep their numbers
  Bytes row_bytes_ = 0;
};

}  // namespace xrun::runtime
