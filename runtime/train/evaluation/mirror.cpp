#include "runtime/train/evaluation/mirror.h"

#include <algorithm>

namespace xrun::runtime {
namespace {

// Mirrors `lines` lines of `width` pixels.
void mirror_lines(std::byte* line, int64_t lines, int64_t width, Bytes pixel) {
  for (int64_t y = 0; y < lines; ++y, line += width * pixel) {
    std::byte* left = line;
    std::byte* right = line + (width - 1) * pixel;
    for (; left < right; left += pixel, right -= pixel) {
      std::swap_ranges(left, left + pixel, right);
    }
  }
}

}  // namespace

void mirror_pictures(const Graph& graph, const BatchView& batch, int64_t rows) {
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const TensorType& type = graph.value(graph.inputs[i].value).type;
    if (batch.inputs[i] == nullptr || !type.has_layouts()) {
      continue;
    }
    const RowRange range = batch.rows.empty() ? RowRange{0, rows} : batch.rows[i];
    const int64_t first = std::min(range.begin, rows);
    const int64_t count = std::min(range.end, rows) - first;
    const Bytes pixel = type.dims[1] * size_of(type.dtype);
    const int64_t height = type.dims[2];
    const int64_t width = type.dims[3];
    mirror_lines(batch.inputs[i] + first * height * width * pixel, count * height, width, pixel);
  }
}

}  // namespace xrun::runtime
