// The type of a tensor: element type and shape, with the batch dimension symbolic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/units.h"

namespace xrun {

enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kF8E4M3, kF8E5M2, kI64, kI32, kI16, kI8, kU8, kBool };

Bytes size_of(DType dtype);
std::string_view name_of(DType dtype);  // "bf16"
// Whether operators compute with numbers of this type: f32, bf16 or f16.
constexpr bool is_computed(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}
// Whether numbers of this type are computed in f32 but stored in two bytes: bf16 or f16.
constexpr bool is_narrow(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }
std::optional<DType> parse_dtype(std::string_view name);

// The first dimension of a tensor may be one of these instead of a number.
inline constexpr int64_t kBatch = -1;  // N: one entry per sample
inline constexpr int64_t kPerBlock =
    -2;  // one entry per row block of the batch (statistics of batch norm); printed "G"

// Memory order of the elements of a tensor [N, C, H, W]: as written, or with the channels last (NHWC). The pass
// assign_layouts chooses it (graph/passes/passes.h); tensors of any other rank are row-major.
enum class Layout : uint8_t { kRowMajor, kChannelsLast };

struct TensorType {
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  bool sharded = false;               // sharded[N, C]: C is split over devices and never stored in one place
  int64_t classes = 0;                // index(C): whole numbers in 0..C-1; 0 means "not an index"
  Layout layout = Layout::kRowMajor;  // order of the value in memory; equal types may have different layouts

  bool has_batch() const { return !dims.empty() && dims[0] == kBatch; }
  bool per_block() const { return !dims.empty() && dims[0] == kPerBlock; }
  int rank() const { return static_cast<int>(dims.size()); }
  bool has_layouts() const { return has_batch() && rank() == 4; }  // can be stored in more than one layout
  bool is_channels_last() const { return layout == Layout::kChannelsLast && has_layouts(); }
  // Elements of one sample, of one row block, or of the whole tensor if it has neither.
  int64_t row_elements() const;
  // Elements and bytes for `rows` samples in row blocks of `norm_rows`.
  int64_t elements(int64_t rows, int64_t norm_rows) const;
  Bytes bytes(int64_t rows, int64_t norm_rows) const;
  bool operator==(const TensorType& other) const {
    return dtype == other.dtype && dims == other.dims && sharded == other.sharded && classes == other.classes;
  }
};

// The text of a type: "f32[N, 3, 112, 112]", "index(10)[N]", "sharded[N, 20902]".
std::string to_text(const TensorType& type);

}  // namespace xrun
