// Tests: tests/runtime/data/augment/transform_test.cpp
#include "runtime/data/augment/column_stages.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/errors.h"
#include "runtime/data/augment/ignore.h"

namespace xrun::runtime {
namespace {

// The error for a cell without a usable number, with the column and the value of the cell. `i`: place of the column in
// step.columns.
Error unusable(const AugmentStep& step, size_t i, double value) {
  const std::string name = i < step.names.size() ? fmt::format(" (`{}`)", step.names[i]) : "";
  return content_error("XG0412",
                       {"column {}{} is {}", step.columns[i], name,
                        std::isnan(value) ? "a missing value" : "infinite or more than f32 can hold"},
                       std::isnan(value) ? "fill the cell in, remove the line, or raise `max_bad`"
                                         : "correct the cell, remove the line, or raise `max_bad`");
}

// Copies the cells of the step's columns to `to`. Errors: XG0404 there is no such column; XG0412 a cell is not usable.
Status read_cells(const AugmentStep& step, const AugmentScratch& scratch, double* to) {
  const FieldValue& row = scratch.source;
  XRUN_CHECK(scratch.form == AugmentScratch::kSource && row.dtype == DType::kF64,
             "a column of something that is not a table");
  const auto* cells = reinterpret_cast<const double*>(row.bytes.data());
  for (size_t i = 0; i < step.columns.size(); ++i) {
    const int64_t column = step.columns[i];
    if (column >= row.dims[0]) {
      return content_error("XG0404", {"a row of {} columns has no column {}", row.dims[0], column},
                           "columns are counted from 0");
    }
    to[i] = cells[column];
    if (!std::isfinite(to[i]) && !(step.missing && std::isnan(to[i]))) {
      return unusable(step, i, to[i]);
    }
  }
  return {};
}

// Converts a number to a class, which is counted from 0; `first` is the number of the first class.
Result<double> class_of(double number, int64_t first, int64_t classes) {
  if (number == kNoLabel) {
    return number;
  }
  const double made = number - static_cast<double>(first);
  Status fits = check_label(made, classes);
  if (!fits.ok() && first != 0 && made == std::floor(made)) {
    Error error = content_error(
        "XG0402",
        {"label {} does not fit {} classes that begin at {}", number, format_with_underscores(classes), first},
        made < 0 ? fmt::format("labels begin at {}: correct the label, or give another `first`", first)
                 : std::string());
    error.label = fmt::format("labels must be whole numbers in {}..{}", first, first + classes - 1);
    return error;
  }
  XRUN_TRY(fits);
  return made;
}

// Checks that f32 represents the number exactly, since an earlier stage has converted it to f32.
Status check_exact(double number) {
  constexpr double kMostExact = 1 << 24;
  if (std::abs(number) < kMostExact || number == kNoLabel) {
    return {};
  }
  return content_error("XG0402",
                       {"label {} was converted to f32, which rounds whole numbers from 16 777 216 on", number},
                       "put `as_index` directly after `column` or `columns`");
}

}  // namespace

Status run_columns(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  scratch.row.resize(step.columns.size());
  XRUN_TRY(read_cells(step, scratch, scratch.row.data()));
  scratch.form = AugmentScratch::kRow;
  return {};
}

Status run_column(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  XRUN_TRY(read_cells(step, scratch, &scratch.number));
  scratch.form = AugmentScratch::kNumber;
  return {};
}

Status run_fill_missing(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  if (scratch.form == AugmentScratch::kPicture) {  // numbers that a stage before this one has converted to f32
    float* row = scratch.picture.row(0, 0);
    std::replace_if(
        row, row + scratch.picture.width(), [](float x) { return std::isnan(x); }, static_cast<float>(step.values[0]));
    return {};
  }
  load_row(scratch);
  std::ranges::replace_if(
      scratch.row, [](double x) { return std::isnan(x); }, step.values[0]);
  return {};
}

Status run_standardize(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  load_row(scratch);
  if (step.values.size() != scratch.row.size()) {
    return content_error(
        "XG0404", {"`standardize` gets {} numbers, but training measured {}", scratch.row.size(), step.values.size()},
        "give all sources the same columns");
  }
  for (size_t i = 0; i < scratch.row.size(); ++i) {
    scratch.row[i] = (scratch.row[i] - step.values[i]) / step.deviations[i];
  }
  return {};
}

// Does nothing: the reader has already replaced the column's texts by their numbers.
Status run_as_class(const AugmentStep&, AugmentScratch&, const DrawKey&) { return {}; }

Status run_as_index(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  const bool was_f32 = scratch.form == AugmentScratch::kPicture;
  const bool is_row = was_f32 || scratch.form == AugmentScratch::kRow ||
                      (scratch.form == AugmentScratch::kSource && scratch.source.rank > 0);
  if (is_row) {
    load_row(scratch);
    for (double& number : scratch.row) {
      XRUN_TRY(was_f32 ? check_exact(number) : Status());
      XRUN_ASSIGN(number, class_of(number, step.extra, step.size));
    }
    return {};
  }
  XRUN_ASSIGN(scratch.number, class_of(number_of(scratch), step.extra, step.size));
  scratch.form = AugmentScratch::kNumber;
  return {};
}

}  // namespace xrun::runtime
