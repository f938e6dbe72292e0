#include "runtime/interchange/random_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace xrun::runtime {
namespace {

template <typename T>
void put(std::vector<std::byte>& rows, size_t element, T value) {
  std::memcpy(rows.data() + element * sizeof(T), &value, sizeof(T));
}

// Copies one sample [C, H, W] to [H, W, C]. `size`: bytes of an element.
void put_channels_last(const std::byte* from, const std::vector<int64_t>& dims, size_t size, std::byte* to) {
  const auto channels = static_cast<size_t>(dims[1]);
  const auto positions = static_cast<size_t>(dims[2] * dims[3]);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t p = 0; p < positions; ++p) {
      std::memcpy(to + (p * channels + c) * size, from + (c * positions + p) * size, size);
    }
  }
}

}  // namespace

std::vector<std::byte> random_numbers(const TensorType& type, int64_t rows, const RandomStream& random) {
  const auto count = static_cast<size_t>(rows * type.row_elements());
  std::vector<std::byte> made(count * static_cast<size_t>(size_of(type.dtype)));
  const uint64_t classes = type.classes > 0 ? static_cast<uint64_t>(type.classes) : 2;
  for (size_t i = 0; i < count; ++i) {
    switch (type.dtype) {
      case DType::kF32:
        put(made, i, random.normal(i));
        break;
      case DType::kF64:
        put(made, i, static_cast<double>(random.normal(i)));
        break;
      case DType::kU8:
        put(made, i, static_cast<uint8_t>(random.below(i, 256)));
        break;
      case DType::kI32:
        put(made, i, static_cast<int32_t>(random.below(i, classes)));
        break;
      case DType::kI64:
        put(made, i, static_cast<int64_t>(random.below(i, classes)));
        break;
      default:
        break;  // the input stays 0
    }
  }
  return made;
}

RandomRows::RandomRows(const Graph& graph, int64_t rows, uint64_t seed) : rows_(rows) {
  for (const NamedValue& input : graph.inputs) {
    const TensorType& type = graph.value(input.value).type;
    inputs_.push_back({input.name, type, random_numbers(type, rows, RandomStream(seed, stable_hash(input.name)))});
  }
}

std::span<const std::byte> RandomRows::rows_of(std::string_view input) const {
  return std::ranges::find(inputs_, input, &Input::name)->rows;
}

void RandomRows::set_rows(std::string_view input, std::vector<std::byte> rows) {
  std::ranges::find(inputs_, input, &Input::name)->rows = std::move(rows);
}

void RandomRows::begin(int64_t first, int64_t rows, const BatchView& batch) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    const auto size = static_cast<size_t>(size_of(input.type.dtype));
    const size_t row_bytes = static_cast<size_t>(input.type.row_elements()) * size;
    for (int64_t r = 0; r < rows; ++r) {
      if (!batch.wants(i, r)) {
        continue;
      }
      const std::byte* const from = input.rows.data() + static_cast<size_t>(first + r) * row_bytes;
      std::byte* const to = batch.inputs[i] + static_cast<size_t>(r) * row_bytes;
      if (input.type.is_channels_last()) {
        put_channels_last(from, input.type.dims, size, to);
      } else {
        std::memcpy(to, from, row_bytes);
      }
    }
  }
}

}  // namespace xrun::runtime
