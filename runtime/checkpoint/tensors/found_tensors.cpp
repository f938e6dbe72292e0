// Tests: tests/runtime/checkpoint/tensors/tensor_files_test.cpp
#include "runtime/checkpoint/tensors/found_tensors.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

#include "runtime/checkpoint/tensors/mismatch.h"

namespace xrun::runtime {
namespace {

// Whether stored rows of type `dtype` can be read into the tensor.
bool fills(std::string_view dtype, const StateTensor& tensor) {
  const bool class_weights =
      tensor.role == StateTensor::Role::kWeight && !tensor.head.empty() && tensor.type.rank() > 1;
  return dtype == safetensors_name(tensor.type.dtype) || (class_weights && row_format(dtype));
}

// Finds the stored rows of `tensor`, or returns the error if they are missing or do not fit; `found` then stays null.
Status find_rows(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                 const StateTensor& tensor, bool any_rows, const std::vector<StoredRows>*& found) {
  const auto at = stored.rows.find(tensor.name);
  if (at == stored.rows.end()) {
    return missing_tensor(info.path, list(stored), state, tensor);
  }
  int64_t next = 0;
  for (const StoredRows& part : at->second) {
    std::vector<int64_t> dims = part.tensor.shape;
    if (!dims.empty()) {
      dims[0] = tensor.rows();
    }
    if (dims != tensor.type.dims || !fills(part.tensor.dtype, tensor)) {
      return other_form(state, tensor,
                        fmt::format("`{}` is {} in the model, but {} {} in the checkpoint {}", tensor.name,
                                    to_text(tensor.type), part.tensor.dtype, shape_text(part.tensor.shape), info.path));
    }
    if (part.tensor.dtype != at->second[0].tensor.dtype) {
      return damaged(info.path, fmt::format("has rows of `{}` in two formats, {} and {}", tensor.name,
                                            at->second[0].tensor.dtype, part.tensor.dtype));
    }
    if (part.row_begin != next) {
      return damaged(info.path, fmt::format("has row {} of `{}` twice or not at all", next, tensor.name));
    }
    next = part.row_end;
  }
  const bool redistributed = tensor.role == StateTensor::Role::kResidual && next > 0;
  if (next != tensor.rows() && !redistributed && !any_rows) {
    return other_form(state, tensor,
                      fmt::format("`{}` has {} rows in the model, but {} in the checkpoint {}", tensor.name,
                                  format_count(tensor.rows()), format_count(next), info.path),
                      tensor.head.empty() ? "" : "give the head as many classes as the checkpoint has");
  }
  found = &at->second;
  return {};
}

Status lie_together(const CheckpointInfo& info, const StateTensor& tensor, const std::vector<StoredRows>& rows,
                    const std::vector<StoredRows>& others, const char* what) {
  const auto place = [](const StoredRows& part) { return std::tuple(part.file, part.row_begin, part.row_end); };
  return std::ranges::equal(rows, others, {}, place, place)
             ? Status()
             : damaged(info.path,
                       fmt::format("stores rows of `{}` and their {} in different places", tensor.name, what));
}

}  // namespace

std::optional<RowFormat> row_format(std::string_view dtype) {
  return dtype == "F32"       ? std::optional(RowFormat::kF32)
         : dtype == "BF16"    ? std::optional(RowFormat::kBf16)
         : dtype == "F8_E4M3" ? std::optional(RowFormat::kFp8)
                              : std::nullopt;
}

Status find_tensor(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                   const StateTensor& tensor, const RowMap* map, Found& found) {
  found.tensor = &tensor;
  found.map = map;
  XRUN_TRY(find_rows(info, stored, state, tensor, map != nullptr, found.rows));
  if (found.rows->front().tensor.dtype != safetensors_name(DType::kF8E4M3)) {
    return {};
  }
  XRUN_TRY(find_rows(info, stored, state, scales_of(tensor), map != nullptr, found.scales));
  return lie_together(info, tensor, *found.rows, *found.scales, "scales");
}

namespace {

// Finds the shifts and velocities from which the current values of idle class rows are computed (shifts_of).
Status find_shifts(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                   const StateTensor& tensor, Found& found) {
  const StateTensor shifts = shifts_of(tensor);
  if (tensor.role != StateTensor::Role::kWeight || !stored.rows.contains(shifts.name)) {
    return {};
  }
  StateTensor velocity = tensor;
  velocity.name += ".velocity";
  velocity.role = StateTensor::Role::kOptimizer;
  velocity.type.dtype = DType::kF32;
  XRUN_TRY(find_rows(info, stored, state, shifts, found.map != nullptr, found.shifts));
  XRUN_TRY(find_rows(info, stored, state, velocity, found.map != nullptr, found.velocity));
  XRUN_TRY(lie_together(info, tensor, *found.rows, *found.shifts, "shifts"));
  return lie_together(info, tensor, *found.rows, *found.velocity, "velocities");
}

}  // namespace

Status find_in_use(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                   const StateTensor& tensor, const RowMap* map, Found& found) {
  StateTensor mean = mean_of(tensor);
  mean.role = StateTensor::Role::kWeight;  // class rows may be stored in another format than in the state
  if (tensor.role != StateTensor::Role::kWeight || !stored.rows.contains(mean.name)) {
    XRUN_TRY(find_tensor(info, stored, state, tensor, map, found));
    return find_shifts(info, stored, state, tensor, found);
  }
  found.tensor = &tensor;
  found.map = map;
  return find_rows(info, stored, state, mean, map != nullptr, found.rows);
}

}  // namespace xrun::runtime
