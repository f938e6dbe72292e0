// The samples that `xrun predict` classifies, with their names and, if known, their classes: pictures, rows of a table,
// or rows of a source. Samples need no labels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/console/options.h"
#include "runtime/cli/model/planned.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/train/events/events.h"
#include "runtime/train/session/batch_source.h"

namespace xrun::cli {

// The class of a sample according to its source.
struct RowLabel {
  std::optional<int64_t> number;  // number of the class in training; nullopt: not known, or not a class of training
  std::string name;               // empty if classes have no names
};

class Subject {
 public:
  // Checks the arguments as far as that is possible before data is opened. Errors: XG0905.
  static Status check(const PlannedModel& planned, const PredictArgs& args);
  // `trained`: the classes of training. Errors: those of `check` and of opening; XG0902 rows outside the source.
  static Result<Subject> open(const PlannedModel& planned, const PredictArgs& args, const TrainedTables& trained,
                              runtime::EventSink& events);

  runtime::RowSource& rows() { return *rows_; }
  int64_t first() const { return first_; }
  int64_t count() const { return count_; }
  std::string name(int64_t row) const { return rows_->sample_name(first_ + row); }
  // The class of a row; empty if the source has no label for the row, or a label that cannot be read. Errors: the
  // operating system denies the read.
  Result<RowLabel> label(int64_t row);

  // Rows that turned out to be broken, in ascending order. Results leave them out.
  std::vector<runtime::BrokenRow> broken;
  // The fault of a broken row; null if the row is not broken.
  const std::string* fault_of(int64_t row) const;
  // Checks that at least one row can be read. Errors: XG0408 all rows are broken.
  Status check_any_left() const;

 private:
  std::unique_ptr<runtime::RowSource> rows_;
  int64_t first_ = 0;
  int64_t count_ = 0;
  std::string label_input_;         // empty: the model has no input of classes
  std::vector<std::string> names_;  // names of the source's classes
  std::vector<int64_t> numbers_;    // index: class of the source; value: class of training, or -1; empty: equal numbers
};

}  // namespace xrun::cli
