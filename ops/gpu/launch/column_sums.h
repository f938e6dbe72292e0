// Sums over columns as launches.
#pragma once

#include "ops/gpu/launch/launch_list.h"

namespace xrun::ops::gpu {

// Adds the sums of the columns of each row block [rows, columns] to `sums`, block after block. REQUIRES: f32 or bf16.
inline void add_column_sums(LaunchList& list, DType dtype, const GpuArgument& x, const GpuArgument& sums, int64_t rows,
                            int64_t columns, int64_t blocks) {
  const std::string kernel = "column_sums_" + std::string(name_of(dtype));
  for (int64_t b = 0; b < blocks; ++b) {
    list.add("column_sums", kernel, {pieces_of(columns, kColumnsOfBlock), 1, 1}, kThreadsOfColumns,
             after(x, b * rows * columns * size_of(dtype)), sums, rows, columns);
  }
}

}  // namespace xrun::ops::gpu
