// Samples of NumPy arrays as values of a field: the layouts of arrays, and the conversion of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/types/tensor_type.h"
#include "runtime/data/readers/reader.h"
#include "runtime/formats/tensors/npy_file.h"

namespace xrun::runtime {

// Checks that an array holds numbers and has the dimensions of `layout`, a name that the declaration of the reader
// accepts. Errors: XG0412 the array holds texts, or samples of more than 2^28 elements; XG0413 it has other dimensions.
Status check_npy_values(const NpyFile& file, std::string_view layout);

// Checks that samples of `other` can follow those of `first`: equal types and shapes. Errors: XG0412.
Status check_equal_npy(const NpyFile& first, const NpyFile& other);

// The form of the field for an array. The channels of pictures come first.
struct NpyForm {
  DType dtype = DType::kF32;  // u8, i32, i64, f64 or f32
  std::vector<int64_t> shape;
  int64_t last_channels = 1;  // more than 1: the channels come last in the file

  // REQUIRES: check_npy_values accepts the array.
  static NpyForm of(const NpyHeader& header, std::string_view layout);
};

// Reads a sample in this form. Errors: those of NpyFile::read; XG0412 a number is not finite as f32, or is 2^63 or
// more.
Status read_npy_value(const NpyFile& file, int64_t row, const NpyForm& form, FieldValue& out);

}  // namespace xrun::runtime
