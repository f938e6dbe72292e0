// Copies between tensors of different layouts, as launches.
#pragma once

#include "ops/gpu/launch/launch_list.h"
#include "ops/loops/strides.h"

namespace xrun::ops::gpu {

// Adds a copy of `elements` contiguous elements of `size` bytes, 2 or 4.
void add_copy(LaunchList& list, Bytes size, const GpuArgument& from, const GpuArgument& to, int64_t elements);
// Adds a strided copy, operand 0 of the loop being the target. REQUIRES: can_copy(loop).
void add_copy(LaunchList& list, Bytes size, const GpuArgument& from, const GpuArgument& to, const StridedLoop<2>& loop);
// Whether a kernel has enough dimensions for the copy.
bool can_copy(const StridedLoop<2>& loop);
// Sets `elements` contiguous elements of `size` bytes to 0.
void add_zeros(LaunchList& list, Bytes size, const GpuArgument& to, int64_t elements);

// Adds transposes of `count` matrices [rows, columns]. REQUIRES: rows and columns are at most kMostTransposed.
inline constexpr int64_t kMostTransposed = kMostBlocks * 32;
void add_transposes(LaunchList& list, Bytes size, const GpuArgument& from, const GpuArgument& to, int64_t count,
                    int64_t rows, int64_t columns);

// The kernel that copies the first input to the first output, which have equal layouts.
Result<std::unique_ptr<GpuKernel>> make_copy(const GpuSpec& spec);

}  // namespace xrun::ops::gpu
