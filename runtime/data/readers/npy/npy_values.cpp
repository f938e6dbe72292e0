// A sample is read straight into the caller's memory if its elements are already in the form that the field has.
// Otherwise it is read next to the value, and converted: other byte orders, small floats, channels that come last.
// Tests: tests/runtime/data/readers/npy/npy_test.cpp
#include "runtime/data/readers/npy/npy_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <type_traits>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/formats/tensors/npy_elements.h"

namespace xrun::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are little-endian");

constexpr int64_t kMostItems = int64_t{1} << 28;  // elements of a sample; pictures count their pixels in 32 bits

struct Layout {
  std::string_view name;
  size_t dims;  // number of dimensions of the array
  std::string_view shape;
};
constexpr Layout kLayouts[] = {
    {"number", 1, "[samples]"},
    {"row", 2, "[samples, numbers]"},
    {"matrix", 3, "[samples, rows, columns]"},
    {"hw", 3, "[samples, height, width]"},
    {"chw", 4, "[samples, channels, height, width]"},
    {"hwc", 4, "[samples, height, width, channels]"},
    {"volume", 5, "[samples, channels, depth, height, width]"},
};

// Proposes the layouts of arrays with the dimensions of this one.
std::string layout_help(const NpyHeader& header) {
  const auto& dims = header.dims;
  const auto is_channels = [](int64_t dim) { return dim == 1 || dim == 3 || dim == 4; };
  if (dims.size() == 4 && is_channels(dims[3]) != is_channels(dims[1])) {
    return is_channels(dims[3]) ? "for pictures whose channels come last, write layout=\"hwc\""
                                : "for pictures whose channels come first, write layout=\"chw\"";
  }
  std::vector<std::string> fitting;
  for (const Layout& layout : kLayouts) {
    if (layout.dims == dims.size()) {
      fitting.push_back(fmt::format("layout=\"{}\" for {}", layout.name, layout.shape));
    }
  }
  return fmt::format("write {}", fmt::join(fitting, ", or "));
}

// The element type of the field for an array.
DType field_dtype(const NpyHeader& header) {
  const bool is_short = header.dims.size() <= 2;  // one number or a row; pictures are u8 or f32
  switch (header.kind) {
    case NpyKind::kBool:
      return DType::kU8;
    case NpyKind::kUnsigned:
      if (header.item_bytes == 1) {
        return DType::kU8;
      }
      return !is_short ? DType::kF32 : header.item_bytes == 2 ? DType::kI32 : DType::kI64;
    case NpyKind::kSigned:
      return !is_short ? DType::kF32 : header.item_bytes == 8 ? DType::kI64 : DType::kI32;
    case NpyKind::kFloat:
      return is_short && header.item_bytes == 8 ? DType::kF64 : DType::kF32;
    default:
      return DType::kF32;
  }
}

// Whether elements of the file have the form of the field.
bool is_stored_so(const NpyHeader& header, DType dtype) {
  const bool is_native = !header.is_big_endian || header.item_bytes == 1;
  switch (dtype) {
    case DType::kU8:
      return true;
    case DType::kF32:
      return is_native && header.kind == NpyKind::kFloat && header.item_bytes == 4;
    case DType::kF64:
      return is_native;
    default:
      return is_native && header.kind == NpyKind::kSigned && header.item_bytes == size_of(dtype);
  }
}

// Finds a number that is not finite as f32.
template <class T>
Status check_finite(const T* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(static_cast<float>(numbers[i]))) {
      return content_error("XG0412", {"number {} is {}, which is not a finite f32", i, numbers[i]},
                           "replace the value, or raise `max_bad`");
    }
  }
  return {};
}

// Converts the elements of a sample. `channels`: of pictures whose channels come last, which become planes; else 1.
template <class T>
Status convert(const NpyHeader& header, const std::byte* from, int64_t count, int64_t channels, T* to) {
  const int64_t plane = count / channels;
  int64_t pixel = 0;
  int64_t channel = 0;
  bool fits = true;
  for_each_number(header, from, count, [&](int64_t, auto number) {
    if constexpr (std::is_integral_v<T> && std::is_integral_v<decltype(number)>) {
      fits = fits && (sizeof(T) == 1 || std::in_range<int64_t>(number));
    }
    to[channel * plane + pixel] = static_cast<T>(number);
    if (++channel == channels) {
      channel = 0;
      ++pixel;
    }
  });
  return fits ? Status()
              : content_error("XG0412", "a number of 2^63 or more", "replace the value, or write it as a float");
}

}  // namespace

Status check_npy_values(const NpyFile& file, std::string_view name) {
  const NpyHeader& header = file.header();
  if (header.kind == NpyKind::kText || header.kind == NpyKind::kBytes) {
    return content_error("XG0412", {"{} holds {}, but samples are numbers", file.name(), npy_content(header)},
                         "texts can be labels: name this array as `labels`");
  }
  const Layout* layout = std::ranges::find(kLayouts, name, &Layout::name);
  XRUN_CHECK(layout != std::end(kLayouts), "a layout that the declaration accepts");
  if (header.dims.size() != layout->dims) {
    return content_error(
        "XG0413",
        {"{} holds {}, but `layout` is {}: {}", file.name(), npy_content(header), layout->name, layout->shape},
        layout_help(header));
  }
  if (file.sample_items() > kMostItems) {
    return content_error("XG0412", {"{}: samples of {} elements", file.name(), format_count(file.sample_items())},
                         {"write samples of at most {} elements", format_count(kMostItems)});
  }
  return {};
}

Status check_equal_npy(const NpyFile& first, const NpyFile& other) {
  const NpyHeader& a = first.header();
  const NpyHeader& b = other.header();
  if (a.kind == b.kind && a.item_bytes == b.item_bytes &&
      std::equal(a.dims.begin() + 1, a.dims.end(), b.dims.begin() + 1, b.dims.end())) {
    return {};
  }
  return content_error(
      "XG0412", {"{} holds {}, but {} holds {}", other.name(), npy_content(b), first.name(), npy_content(a)},
      "the files of one source have samples of one type and shape; give the others a source of their own");
}

NpyForm NpyForm::of(const NpyHeader& header, std::string_view layout) {
  NpyForm form{.dtype = field_dtype(header), .shape = {header.dims.begin() + 1, header.dims.end()}};
  if (layout == "hw") {
    form.shape.insert(form.shape.begin(), 1);
  } else if (layout == "hwc") {
    form.last_channels = form.shape[2];
    form.shape = {form.shape[2], form.shape[0], form.shape[1]};
  }
  return form;
}

Status read_npy_value(const NpyFile& file, int64_t row, const NpyForm& form, FieldValue& out) {
  const NpyHeader& header = file.header();
  const int64_t count = file.sample_items();
  const auto bytes = static_cast<size_t>(file.sample_bytes());
  const bool is_direct = is_stored_so(header, form.dtype) && form.last_channels == 1;
  std::byte* const to = out.set_own(form.dtype, form.shape, is_direct ? 0 : bytes);
  std::byte* const from = is_direct ? to : to + count * size_of(form.dtype);
  XRUN_TRY(file.read(row, 1, {from, bytes}));
  const auto fill = [&]<typename T>(T* numbers) -> Status {
    if (!is_direct) {
      XRUN_TRY(convert(header, from, count, form.last_channels, numbers));
    }
    return std::is_floating_point_v<T> ? check_finite(numbers, count) : Status();
  };
  switch (form.dtype) {
    case DType::kU8:
      return fill(reinterpret_cast<uint8_t*>(to));
    case DType::kI32:
      return fill(reinterpret_cast<int32_t*>(to));
    case DType::kI64:
      return fill(reinterpret_cast<int64_t*>(to));
    case DType::kF64:
      return fill(reinterpret_cast<double*>(to));
    default:
      return fill(reinterpret_cast<float*>(to));
  }
}

}  // namespace xrun::runtime
