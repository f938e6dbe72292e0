#include "runtime/interchange/import/copy_tensors.h"

#include <algorithm>
#include <cmath>

#include "graph/base/check.h"
#include "graph/base/errors.h"
#include "graph/base/units.h"

namespace xrun::runtime {
namespace {

constexpr int64_t kChunk = 4 * kMiB / static_cast<int64_t>(sizeof(float));  // elements that are read at once

class Copying {
 public:
  Copying(std::span<const ForeignTensor> tensors, std::span<const std::unique_ptr<WeightFile>> files, StopFlag stop)
      : tensors_(tensors), files_(files), stop_(stop) {}

  Status copy(const Fit& fit, const StateTensor& to, TrainState& state) const {
    const int64_t width = std::max<int64_t>(1, to.row_elements());
    if (fit.transposed) {
      std::vector<float> values;
      XRUN_TRY(read_transposed(fit, to, values));
      state.write_values(to, 0, to.rows(), values.data());
      return {};
    }
    const int64_t step = std::max<int64_t>(1, kChunk / width);
    std::vector<float> values;
    for (int64_t row = 0; row < to.rows(); row += step) {
      XRUN_TRY(check_stop(stop_));
      const int64_t end = std::min(to.rows(), row + step);
      values.resize(static_cast<size_t>((end - row) * to.row_elements()));
      XRUN_TRY(read(fit, fit.first + row * to.row_elements(), values));
      state.write_values(to, row, end, values.data());
    }
    return {};
  }

 private:
  // Reads elements [first, first + values.size()) of the tensors of a fit, which follow one another.
  Status read(const Fit& fit, int64_t first, std::span<float> values) const {
    for (const size_t one : fit.from) {
      const ForeignTensor& tensor = tensors_[one];
      const int64_t elements = elements_of(tensor.dims);
      if (first >= elements) {
        first -= elements;
        continue;
      }
      const int64_t count = std::min(elements - first, std::ssize(values));
      XRUN_TRY(files_[tensor.file]->read(tensor.index, first, count, values.data()));
      if (!std::ranges::all_of(values.first(static_cast<size_t>(count)), [](float v) { return std::isfinite(v); })) {
        return content_error("XG0412", {"`{}` has a number that is not finite", tensor.name},
                             "take weights from before the training failed, or leave the tensor out with --skip");
      }
      values = values.subspan(static_cast<size_t>(count));
      first = 0;
    }
    XRUN_CHECK(values.empty(), "a tensor of files has too few elements");
    return {};
  }

  Status read_transposed(const Fit& fit, const StateTensor& to, std::vector<float>& values) const {
    // The rows of the target are the inner dimension of the file's matrix. Dimensions of one may be anywhere in both.
    const std::vector<int64_t>& dims = tensors_[fit.from[0]].dims;
    const auto inner = std::find_if(dims.rbegin(), dims.rend(), [](int64_t dim) { return dim != 1; });
    XRUN_CHECK(inner != dims.rend(), "a transposed tensor that is not a matrix");
    const auto rows = static_cast<size_t>(*inner);
    std::vector<float> stored(static_cast<size_t>(to.rows() * to.row_elements()));
    const size_t columns = stored.size() / std::max<size_t>(rows, 1);
    XRUN_TRY(read(fit, 0, stored));
    values.resize(stored.size());
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        values[r * columns + c] = stored[c * rows + r];
      }
    }
    return {};
  }

  std::span<const ForeignTensor> tensors_;
  std::span<const std::unique_ptr<WeightFile>> files_;
  StopFlag stop_;
};

}  // namespace

Status copy_tensors(std::span<const Fit> fits, std::span<const ForeignTensor> tensors,
                    std::span<const std::unique_ptr<WeightFile>> files, const ModelForm& form, TrainState& state,
                    StopFlag stop) {
  const Copying copying(tensors, files, stop);
  for (const Fit& one : fits) {
    const StateTensor* const to = state.find(form.tensors[one.to].name);
    XRUN_CHECK(to != nullptr, "a tensor of the model is not in the state");
    XRUN_TRY(copying.copy(one, *to, state));
  }
  return {};
}

}  // namespace xrun::runtime
