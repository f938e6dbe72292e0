#include "graph/types/tensor_type.h"

#include <array>
#include <utility>

namespace xrun {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  Bytes bytes;
};

constexpr std::array<DTypeRow, 12> kDTypes{{{DType::kF64, "f64", 8},
                                            {DType::kF32, "f32", 4},
                                            {DType::kBF16, "bf16", 2},
                                            {DType::kF16, "f16", 2},
                                            {DType::kF8E4M3, "f8e4m3", 1},
                                            {DType::kF8E5M2, "f8e5m2", 1},
                                            {DType::kI64, "i64", 8},
                                            {DType::kI32, "i32", 4},
                                            {DType::kI16, "i16", 2},
                                            {DType::kI8, "i8", 1},
                                            {DType::kU8, "u8", 1},
                                            {DType::kBool, "bool", 1}}};

const DTypeRow& row_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

}  // namespace

Bytes size_of(DType dtype) { return row_of(dtype).bytes; }

std::string_view name_of(DType dtype) { return row_of(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

int64_t TensorType::row_elements() const {
  int64_t product = 1;
  for (const int64_t dim : dims) {
    product *= dim < 0 ? 1 : dim;
  }
  return product;
}

int64_t TensorType::elements(int64_t rows, int64_t norm_rows) const {
  if (has_batch()) {
    return row_elements() * rows;
  }
  return per_block() ? row_elements() * ((rows + norm_rows - 1) / norm_rows) : row_elements();
}

Bytes TensorType::bytes(int64_t rows, int64_t norm_rows) const { return elements(rows, norm_rows) * size_of(dtype); }

std::string to_text(const TensorType& type) {
  std::string text = type.sharded       ? "sharded"
                     : type.classes > 0 ? "index(" + std::to_string(type.classes) + ")"
                                        : std::string(name_of(type.dtype));
  text += '[';
  for (size_t i = 0; i < type.dims.size(); ++i) {
    text += i > 0 ? ", " : "";
    const int64_t dim = type.dims[i];
    text += dim == kBatch ? "N" : dim == kPerBlock ? "G" : std::to_string(dim);
  }
  return text + ']';
}

}  // namespace xrun
