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

Result<const double*> row_of(const AugmentScratch& scratch, int64_t end) {
  const FieldValue& row = scratch.source;
  XRUN_CHECK(scratch.form == AugmentScratch::kSource && row.dtype == DType::kF64,
             "a column of something that is not a table");
  if (end > row.dims[0]) {
    return content_error("XG0404", {"a row of {} columns has no column {}", row.dims[0], end - 1},
                         "columns are counted from 0");
  }
  return reinterpret_cast<const double*>(row.bytes.data());
}

// The error for a cell without a usable number, with the column and the value of the cell.
Error unusable(const AugmentStep& step, int64_t column, double value) {
  const auto at = static_cast<size_t>(column - step.size);
  const std::string name = at < step.names.size() ? fmt::format(" (`{}`)", step.names[at]) : "";
  return content_error(
      "XG0412",
      {"column {}{} is {}", column, name, std::isnan(value) ? "a missing value" : "infinite or more than f32 can hold"},
      std::isnan(value) ? "fill the cell in, remove the line, or raise `max_bad`"
                        : "correct the cell, remove the line, or raise `max_bad`");
}

bool is_usable(const AugmentStep& step, double value) {
  return std::isfinite(value) || (step.missing && std::isnan(value));
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
  XRUN_ASSIGN(const double* row, row_of(scratch, step.extra));
  scratch.row.assign(row + step.size, row + step.extra);
  const auto bad = std::ranges::find_if_not(scratch.row, [&](double x) { return is_usable(step, x); });
  if (bad != scratch.row.end()) {
    return unusable(step, step.size + (bad - scratch.row.begin()), *bad);
  }
  scratch.form = AugmentScratch::kRow;
  return {};
}

Status run_column(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  XRUN_ASSIGN(const double* row, row_of(scratch, step.size + 1));
  scratch.number = row[step.size];
  if (!is_usable(step, scratch.number)) {
    return unusable(step, step.size, scratch.number);
  }
  scratch.form = AugmentScratch::kNumber;
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
