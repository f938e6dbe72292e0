// Elements are read in parts. A tensor whose elements are not one after the other (a transposed view) is gathered: if
// the elements of a part are close to each other, the range that has them is read at once; otherwise each run of
// neighbours is read by itself, which is slow.
#include "runtime/interchange/weights/stored_weights.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

constexpr int64_t kPart = 64 * 1024;       // elements that are read at once
constexpr int64_t kStridedPart = 1 << 20;  // likewise, of tensors that are gathered
constexpr Bytes kMostRange = 64 * kMiB;    // the largest range that is read for a part that is gathered

// Walks over the elements of a strided tensor in the order of C. Offsets count elements.
class Walk {
 public:
  Walk(const StoredTensor& tensor, int64_t first) : dims_(tensor.dims), strides_(tensor.strides), index_(dims_.size()) {
    for (size_t i = dims_.size(); i-- > 0;) {
      index_[i] = first % dims_[i];
      first /= dims_[i];
      offset_ += index_[i] * strides_[i];
    }
  }

  int64_t offset() const { return offset_; }
  // The elements from here on that are neighbours in this order and in the source.
  int64_t run() const { return dims_.empty() || strides_.back() != 1 ? 1 : dims_.back() - index_.back(); }
  void advance(int64_t run) {
    if (dims_.empty()) {
      return;
    }
    const size_t last = dims_.size() - 1;
    index_[last] += run;
    offset_ += run * strides_[last];
    for (size_t i = last; i > 0 && index_[i] == dims_[i]; --i) {
      index_[i] = 0;
      offset_ += strides_[i - 1] - dims_[i] * strides_[i];
      ++index_[i - 1];
    }
  }

 private:
  const std::vector<int64_t>& dims_;
  const std::vector<int64_t>& strides_;
  std::vector<int64_t> index_;
  int64_t offset_ = 0;
};

// Copies elements [first, first + count) to `to`, one after the other.
Status gather(const StoredTensor& tensor, int64_t first, int64_t count, std::byte* to) {
  const Bytes size = bytes_of(tensor.type);
  const auto begin_of = [&](int64_t offset) { return tensor.begin + offset * size; };
  int64_t low = INT64_MAX;
  int64_t high = 0;
  Walk walk(tensor, first);
  for (int64_t left = count; left > 0;) {
    const int64_t run = std::min(walk.run(), left);
    low = std::min(low, walk.offset());
    high = std::max(high, walk.offset() + run);
    walk.advance(run);
    left -= run;
  }
  std::vector<std::byte> range;
  if ((high - low) * size <= kMostRange) {
    range.resize(static_cast<size_t>((high - low) * size));
    XRUN_TRY(tensor.source->read(begin_of(low), range));
  }
  Walk again(tensor, first);
  for (int64_t left = count; left > 0;) {
    const int64_t run = std::min(again.run(), left);
    const auto bytes = static_cast<size_t>(run * size);
    if (!range.empty()) {
      std::memcpy(to, range.data() + (again.offset() - low) * size, bytes);
    } else {
      XRUN_TRY(tensor.source->read(begin_of(again.offset()), {to, bytes}));
    }
    to += bytes;
    again.advance(run);
    left -= run;
  }
  return {};
}

class StoredWeights final : public WeightFile {
 public:
  StoredWeights(WeightContents contents, std::string format, StopFlag stop)
      : contents_(std::move(contents)), format_(std::move(format)), stop_(stop) {}

  const std::string& format() const override { return format_; }
  const std::vector<WeightTensor>& tensors() const override { return contents_.tensors; }
  const std::vector<std::string>& others() const override { return contents_.others; }
  Status read(size_t index, int64_t first, int64_t count, float* to) const override {
    const StoredTensor& tensor = contents_.places[index];
    const Bytes size = bytes_of(tensor.type);
    const bool is_strided = !tensor.strides.empty();
    const int64_t most = std::min(count, is_strided ? kStridedPart : kPart);
    std::vector<std::byte> buffer(static_cast<size_t>(most * size));
    for (const int64_t end = first + count; first < end;) {
      XRUN_TRY(check_stop(stop_));
      const int64_t now = std::min(most, end - first);
      const auto part = std::span(buffer).first(static_cast<size_t>(now * size));
      XRUN_TRY(is_strided ? gather(tensor, first, now, part.data())
                          : tensor.source->read(tensor.begin + first * size, part));
      if (const int64_t bad = widen(tensor.type, tensor.big_endian, part.data(), now, to); bad < now) {
        return content_error("XG0412",
                             {"{}: element {} of {} ({}) has no exact f32: it is too large", contents_.path,
                              first + bad, contents_.tensors[index].name, tensor.dtype},
                             "convert the tensor to float32 before saving it, or leave it out");
      }
      first += now;
      to += now;
    }
    return {};
  }

 private:
  WeightContents contents_;
  std::string format_;
  StopFlag stop_;
};

// Whether the strides are those of the order of C without gaps. Dimensions of one element have any stride.
bool is_in_order(const StoredTensor& tensor) {
  if (std::ranges::find(tensor.dims, 0) != tensor.dims.end()) {
    return true;
  }
  int64_t step = 1;
  for (size_t i = tensor.strides.size(); i-- > 0; step *= tensor.dims[i]) {
    if (tensor.dims[i] != 1 && tensor.strides[i] != step) {
      return false;
    }
  }
  return true;
}

}  // namespace

int64_t WeightTensor::elements() const {
  if (std::ranges::find(dims, 0) != dims.end()) {
    return 0;  // whatever the other dimensions are: their product may overflow
  }
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

Status check_extent(const StoredTensor& tensor, std::string_view where) {
  int64_t elements = 1;
  int64_t last = 0;  // the offset of the last element
  bool is_too_large = false;
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    is_too_large |= tensor.dims[i] < 0 || __builtin_mul_overflow(elements, tensor.dims[i], &elements);
    if (!tensor.strides.empty()) {
      int64_t step = 0;
      is_too_large |= tensor.strides[i] < 0 ||
                      __builtin_mul_overflow(tensor.strides[i], std::max<int64_t>(tensor.dims[i] - 1, 0), &step) ||
                      __builtin_add_overflow(last, step, &last);
    }
  }
  const bool is_empty = std::ranges::find(tensor.dims, 0) != tensor.dims.end();
  if (is_empty && std::ranges::all_of(tensor.dims, [](int64_t dim) { return dim >= 0; })) {
    return {};
  }
  last = tensor.strides.empty() ? elements - 1 : last;
  const Bytes rest = tensor.source->bytes() - tensor.begin;
  if (is_too_large || tensor.begin < 0 || rest < 0 || last >= rest / bytes_of(tensor.type)) {
    return broken_file(
        where, fmt::format("its {} elements ({}) are not within its {} bytes of data",
                           is_too_large ? "many" : fmt::to_string(elements), tensor.dtype, tensor.source->bytes()));
  }
  return {};
}

Status WeightContents::add(std::string name, StoredTensor tensor) {
  name = well_formed(name);
  XRUN_TRY(check_extent(tensor, fmt::format("{} in {}", name, path)));
  if (is_in_order(tensor)) {
    tensor.strides.clear();
  }
  tensors.push_back({.name = std::move(name), .dtype = tensor.dtype, .dims = tensor.dims});
  places.push_back(std::move(tensor));
  return {};
}

void WeightContents::add_other(std::string_view name, std::string_view what) {
  others.push_back(fmt::format("{} ({})", well_formed(name), what));
}

Result<std::unique_ptr<WeightFile>> make_stored_weights(WeightContents contents, std::string_view format,
                                                        StopFlag stop) {
  std::unordered_set<std::string_view> names;
  for (const WeightTensor& tensor : contents.tensors) {
    if (!names.insert(tensor.name).second) {
      return broken_file(contents.path, fmt::format("two tensors have the name {}", tensor.name));
    }
  }
  std::string text = fmt::format("{}, {}", format, counted(std::ssize(contents.tensors), "tensor"));
  return std::unique_ptr<WeightFile>(std::make_unique<StoredWeights>(std::move(contents), std::move(text), stop));
}

}  // namespace xrun::runtime
