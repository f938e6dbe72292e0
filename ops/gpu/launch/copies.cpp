// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include "ops/gpu/launch/copies.h"

namespace xrun::ops::gpu {
namespace {

constexpr size_t kMostAxes = 6;  // dimensions of copy_strided_*
constexpr int64_t kTransposedTile = 32;

std::string kernel_for(const char* name, Bytes size) { return std::string(name) + (size == 2 ? "_16" : "_32"); }

using Steps = StridedLoop<2>::Offsets;

int64_t count_of(const StridedLoop<2>& loop) {
  int64_t count = 1;
  for (const int64_t dim : loop.dims()) {
    count *= dim;
  }
  return count;
}

// Whether the loop transposes matrices [rows, columns] of the source that are contiguous in both tensors.
bool is_transpose(const StridedLoop<2>& loop) {
  const auto& dims = loop.dims();
  const auto& steps = loop.steps();
  const size_t n = dims.size();
  if (n != 2 && n != 3) {
    return false;
  }
  const int64_t columns = dims[n - 2], rows = dims[n - 1];  // the target has rows of `rows` elements
  return steps[n - 1] == Steps{1, columns} && steps[n - 2] == Steps{rows, 1} && rows <= kMostTransposed &&
         columns <= kMostTransposed && (n == 2 || steps[0] == Steps{rows * columns, rows * columns});
}

}  // namespace

void add_copy(LaunchList& list, Bytes size, const GpuArgument& from, const GpuArgument& to, int64_t elements) {
  list.each("layout", kernel_for("copy_columns", size), elements, from, to, int64_t{1}, elements, elements, elements);
}

void add_transposes(LaunchList& list, Bytes size, const GpuArgument& from, const GpuArgument& to, int64_t count,
                    int64_t rows, int64_t columns) {
  for_pieces(count, kMostBlocks, [&](int64_t begin, int64_t matrices) {
    const int64_t offset = begin * rows * columns * size;
    list.add("layout", kernel_for("transpose", size),
             {pieces_of(columns, kTransposedTile), pieces_of(rows, kTransposedTile), matrices}, {kTransposedTile, 8, 1},
             after(from, offset), after(to, offset), rows, columns);
  });
}

bool can_copy(const StridedLoop<2>& loop) { return loop.dims().size() <= kMostAxes; }

void add_copy(LaunchList& list, Bytes size, const GpuArgument& from, const GpuArgument& to,
              const StridedLoop<2>& loop) {
  const auto& dims = loop.dims();
  const auto& steps = loop.steps();
  const size_t n = dims.size();
  const int64_t count = count_of(loop);
  if (n <= 2 && steps[n - 1] == Steps{1, 1}) {
    const Steps outer = n == 2 ? steps[0] : Steps{count, count};
    list.each("layout", kernel_for("copy_columns", size), count, from, to, count / dims[n - 1], dims[n - 1], outer[1],
              outer[0]);
    return;
  }
  if (is_transpose(loop)) {
    const int64_t matrix = dims[n - 1] * dims[n - 2];
    add_transposes(list, size, from, to, count / matrix, dims[n - 1], dims[n - 2]);
    return;
  }
  std::vector<GpuArgument> arguments{from, to, argument_of(count)};
  for (size_t d = 0; d + 1 < kMostAxes; ++d) {
    arguments.push_back(argument_of(d < n ? dims[n - 1 - d] : int64_t{1}));
  }
  for (const size_t operand : {size_t{1}, size_t{0}}) {
    for (size_t d = 0; d < kMostAxes; ++d) {
      arguments.push_back(argument_of(d < n ? steps[n - 1 - d][operand] : int64_t{0}));
    }
  }
  list.add_to("strided", kernel_for("copy_strided", size), {pieces_of(count, kThreadsOfBlock), 1, 1},
              {kThreadsOfBlock, 1, 1}, std::move(arguments));
}

void add_zeros(LaunchList& list, Bytes size, const GpuArgument& to, int64_t elements) {
  if (size == 2) {
    list.each("strided", "zeros_16", elements, to, elements);
  } else {
    list.each("finite", "fill_f32", elements, to, elements, 0.0F);
  }
}

Result<std::unique_ptr<GpuKernel>> make_copy(const GpuSpec& spec) {
  return gpu_kernel_of(spec, [spec](LaunchList& list, int64_t blocks) {
    const TensorType& x = spec.node.inputs[0];
    add_copy(list, size_of(x.dtype), in(0), out(0), spec.elements(x, blocks));
  });
}

}  // namespace xrun::ops::gpu
