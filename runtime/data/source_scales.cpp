#include "runtime/data/source_scales.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/data/sample_rows.h"

namespace xrun::runtime {
namespace {

// The values of one column: their number, least and largest value.
struct Column {
  int64_t count = 0;
  double least = 0;
  double largest = 0;
};

class Measuring {
 public:
  Measuring(const Reader& reader, int field, const Transform& transform, StopFlag stop)
      : reader_(reader), field_(field), transform_(transform), stop_(stop) {}

  Result<InputScale> measure() {
    InputScale scale;
    std::vector<double>& means = scale.means;
    std::vector<double>& deviations = scale.deviations;
    XRUN_TRY(each_value([&](size_t c, double x) {
      if (c >= means.size()) {
        means.resize(c + 1);
        columns_.resize(c + 1);
      }
      means[c] += x;
      Column& column = columns_[c];
      column.least = column.count == 0 ? x : std::min(column.least, x);
      column.largest = column.count == 0 ? x : std::max(column.largest, x);
      ++column.count;
    }));
    means.resize(width_);
    columns_.resize(width_);
    deviations.resize(width_);
    for (size_t c = 0; c < width_; ++c) {
      // The rounded mean of equal values may differ from them.
      means[c] = columns_[c].least == columns_[c].largest ? columns_[c].least
                                                          : means[c] / static_cast<double>(columns_[c].count);
    }
    XRUN_TRY(each_value([&](size_t c, double x) { deviations[c] += (x - means[c]) * (x - means[c]); }));
    for (size_t c = 0; c < width_; ++c) {
      const double deviation = std::sqrt(deviations[c] / static_cast<double>(std::max<int64_t>(1, columns_[c].count)));
      deviations[c] = deviation > 0 ? deviation : 1;
    }
    return scale;
  }

  // The columns whose values are all equal, or that have none.
  std::vector<std::string> constant() const {
    std::vector<std::string> found;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].least == columns_[c].largest) {
        found.push_back(transform_.column_label(c));
      }
    }
    return found;
  }

 private:
  // Calls use(column, value) for each value that is not missing, sample by sample.
  template <typename Use>
  Status each_value(const Use& use) {
    Error last;
    bool any = false;
    for (int64_t sample = 0; sample < reader_.samples(); ++sample) {
      XRUN_TRY(check_stop(stop_));
      auto row = values_of(sample);
      if (!row.ok()) {
        last = std::move(row).error();
        last.message = fmt::format("{}: {}", reader_.sample_name(sample), last.message);
        if (!is_broken_sample(last)) {
          return last;
        }
        continue;
      }
      any = true;
      width_ = row->size();
      for (size_t c = 0; c < row->size(); ++c) {
        if (!std::isnan((*row)[c])) {
          use(c, (*row)[c]);
        }
      }
    }
    return any ? Status()
               : content_error("XG0408", {"no sample can be read to standardize by; the last error: {}", last.message},
                               "replace the broken files; `xrun check --data` examines all of them");
  }

  Result<std::span<const double>> values_of(int64_t sample) {
    XRUN_TRY(reader_.read(sample, field_, scratch_.source));
    return transform_.before_standardizing(scratch_);
  }

  const Reader& reader_;
  int field_;
  const Transform& transform_;
  StopFlag stop_;
  AugmentScratch scratch_;
  std::vector<Column> columns_;
  size_t width_ = 0;  // numbers in a row
};

}  // namespace

Result<InputScale> measure_scale(const Reader& reader, int field, const Transform& transform, const std::string& input,
                                 std::vector<Error>& warnings, StopFlag stop) {
  constexpr size_t kMostShown = 5;
  Measuring measuring(reader, field, transform, stop);
  XRUN_ASSIGN(InputScale scale, measuring.measure());
  scale.input = input;
  if (std::vector<std::string> constant = measuring.constant(); !constant.empty()) {
    const size_t count = constant.size();
    constant.resize(std::min(count, kMostShown));
    warnings.push_back(content_error(
        "XG0429",
        {"`{}` of the source `train`: {} {}{} {} not vary, so `standardize` divides by 1", input,
         count == 1 ? "column" : "columns", fmt::join(constant, ", "),
         count > kMostShown ? fmt::format(" and {} more", count - kMostShown) : "", count == 1 ? "does" : "do"},
        "leave out what does not vary"));
  }
  return scale;
}

}  // namespace xrun::runtime
