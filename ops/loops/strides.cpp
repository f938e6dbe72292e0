#include "ops/loops/strides.h"

#include "ops/shape.h"

namespace xrun::ops {

std::vector<int64_t> block_dims(const TensorType& type, int64_t rows) {
  std::vector<int64_t> dims = type.dims;
  if (!dims.empty() && dims[0] == kBatch) {
    dims[0] = rows;
  } else if (!dims.empty() && dims[0] == kPerBlock) {
    dims[0] = 1;
  }
  return dims;
}

std::vector<int64_t> block_strides(const TensorType& type, int64_t rows) {
  const std::vector<int64_t> dims = block_dims(type, rows);
  if (type.is_channels_last()) {
    const int64_t c = dims[1];
    return {dims[1] * dims[2] * dims[3], 1, dims[3] * c, c};
  }
  return row_major(dims);
}

std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

std::vector<int64_t> broadcast_strides(const TensorType& type, const std::vector<int64_t>& dims, int64_t rows) {
  const std::vector<int64_t> own = block_dims(type, rows);
  std::vector<int64_t> strides = block_strides(type, rows);
  for (size_t i = 0; i < own.size(); ++i) {
    strides[i] = own[i] == 1 && dims[i] != 1 ? 0 : strides[i];
  }
  return strides;
}

}  // namespace xrun::ops
