#include "runtime/checkpoint/tensor_files.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include "graph/group_rules.h"
#include "ops/head/catch_up.h"
#include "ops/head/row_format.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/formats/safetensors.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kChunk = 4 * kMiB;

// The format of stored class weights; that of the run may be another one.
std::optional<RowFormat> row_format(std::string_view dtype) {
  return dtype == "F32"       ? std::optional(RowFormat::kF32)
         : dtype == "BF16"    ? std::optional(RowFormat::kBf16)
         : dtype == "F8_E4M3" ? std::optional(RowFormat::kFp8)
                              : std::nullopt;
}

// Whether rows that are stored as `dtype` can fill the tensor.
bool fills(std::string_view dtype, const StateTensor& tensor) {
  const bool class_weights =
      tensor.role == StateTensor::Role::kWeight && !tensor.head.empty() && tensor.type.rank() > 1;
  return dtype == safetensors_name(tensor.type.dtype) || (class_weights && row_format(dtype));
}

// Finds the stored rows of `tensor`, or returns what is wrong with them. `found` stays null on an error.
Status find_rows(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                 const StateTensor& tensor, const std::vector<StoredRows>*& found) {
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
      return damaged(info.path, fmt::format("has rows of `{}` in {} and in {}", tensor.name, at->second[0].tensor.dtype,
                                            part.tensor.dtype));
    }
    if (part.row_begin != next) {
      return damaged(info.path, fmt::format("has rows of `{}` twice or not at all, at row {}", tensor.name, next));
    }
    next = part.row_end;
  }
  const bool redistributed = tensor.role == StateTensor::Role::kResidual && next > 0;
  if (next != tensor.rows() && !redistributed) {
    return other_form(state, tensor,
                      fmt::format("`{}` has {} rows in the model, but {} in the checkpoint {}", tensor.name,
                                  format_count(tensor.rows()), format_count(next), info.path),
                      tensor.head.empty() ? "" : "give the head as many classes as the checkpoint has");
  }
  found = &at->second;
  return {};
}

// Where a tensor of the state lies in the files; class weights in fp8 with their scales.
struct Found {
  const StateTensor* tensor = nullptr;
  const std::vector<StoredRows>* rows = nullptr;
  const std::vector<StoredRows>* scales = nullptr;
  // For rows that catch up, if they are read for use and not to resume.
  const std::vector<StoredRows>* shifts = nullptr;
  const std::vector<StoredRows>* velocity = nullptr;
};

Status lie_together(const CheckpointInfo& info, const StateTensor& tensor, const std::vector<StoredRows>& rows,
                    const std::vector<StoredRows>& others, const char* what) {
  const auto place = [](const StoredRows& part) { return std::tuple(part.file, part.row_begin, part.row_end); };
  return std::ranges::equal(rows, others, {}, place, place)
             ? Status()
             : damaged(info.path, fmt::format("has rows of `{}` apart from their {}", tensor.name, what));
}

// Scales are looked up with their rows, whatever the format of the state.
Status find_tensor(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                   const StateTensor& tensor, Found& found) {
  found.tensor = &tensor;
  XRUN_TRY(find_rows(info, stored, state, tensor, found.rows));
  if (found.rows->front().tensor.dtype != safetensors_name(DType::kF8E4M3)) {
    return {};
  }
  XRUN_TRY(find_rows(info, stored, state, scales_of(tensor), found.scales));
  return lie_together(info, tensor, *found.rows, *found.scales, "scales");
}

// Finds the shifts and velocities by which class rows catch up.
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
  XRUN_TRY(find_rows(info, stored, state, shifts, found.shifts));
  XRUN_TRY(find_rows(info, stored, state, velocity, found.velocity));
  XRUN_TRY(lie_together(info, tensor, *found.rows, *found.shifts, "shifts"));
  return lie_together(info, tensor, *found.rows, *found.velocity, "velocities");
}

// Where the values lie that a weight has in use: those of its running mean where the run kept one.
Status find_in_use(const CheckpointInfo& info, const StoredTensors& stored, const TrainState& state,
                   const StateTensor& tensor, Found& found) {
  StateTensor mean = mean_of(tensor);
  mean.role = StateTensor::Role::kWeight;  // class rows may have another format than the state
  if (tensor.role != StateTensor::Role::kWeight || !stored.rows.contains(mean.name)) {
    XRUN_TRY(find_tensor(info, stored, state, tensor, found));
    return find_shifts(info, stored, state, tensor, found);
  }
  found.tensor = &tensor;
  return find_rows(info, stored, state, mean, found.rows);
}

// A part of `found` in one of its files.
struct FoundPart {
  const StateTensor* tensor = nullptr;
  const StoredRows* rows = nullptr;
  const StoredRows* scales = nullptr;
  const StoredRows* shifts = nullptr;
  const StoredRows* velocity = nullptr;
};

// Makes rows catch up that were read from the file; `row` is the first of them.
Status shift(const StoredFile& file, const std::string& path, const FoundPart& part, int64_t row,
             std::vector<float>& values) {
  const int64_t width = part.tensor->row_elements();
  const int64_t before = row - part.rows->row_begin;
  std::vector<float> shifts(values.size() / static_cast<size_t>(width));
  std::vector<float> velocity(values.size());
  constexpr auto kFloat = static_cast<Bytes>(sizeof(float));
  XRUN_TRY(file.read(part.shifts->tensor, before * kFloat, std::as_writable_bytes(std::span(shifts))));
  XRUN_TRY(file.read(part.velocity->tensor, before * width * kFloat, std::as_writable_bytes(std::span(velocity))));
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(shifts, finite) || !std::ranges::all_of(velocity, finite)) {
    return damaged(path, fmt::format("has a shift or a velocity of `{}` that is not a number", part.tensor->name));
  }
  ops::shift_rows(shifts, velocity, values);
  return {};
}

// Reads such a part into `state`, a few MiB at a time. Rows in the format of the state stay as they are; others are
// rounded to the nearest.
Status copy_rows(const StoredFile& file, const std::string& path, const FoundPart& part, TrainState& state) {
  const StateTensor& tensor = *part.tensor;
  const bool as_it_is = part.rows->tensor.dtype == safetensors_name(tensor.type.dtype) && part.shifts == nullptr;
  const RowFormat format = row_format(part.rows->tensor.dtype).value_or(RowFormat::kF32);
  const int64_t width = tensor.row_elements();
  const Bytes row_bytes = as_it_is ? tensor.row_bytes() : width * element_bytes(format);
  const int64_t step = std::max<int64_t>(1, kChunk / std::max<Bytes>(1, width * element_bytes(RowFormat::kF32)));
  std::vector<std::byte> rows;
  std::vector<float> scales;
  std::vector<float> values;
  for (int64_t row = part.rows->row_begin; row < part.rows->row_end && row_bytes > 0; row += step) {
    const int64_t end = std::min(part.rows->row_end, row + step);
    rows.resize(static_cast<size_t>((end - row) * row_bytes));
    XRUN_TRY(file.read(part.rows->tensor, (row - part.rows->row_begin) * row_bytes, rows));
    scales.assign(static_cast<size_t>(end - row), 1.0F);
    if (part.scales != nullptr) {
      const Bytes first = (row - part.rows->row_begin) * static_cast<Bytes>(sizeof(float));
      XRUN_TRY(file.read(part.scales->tensor, first, std::as_writable_bytes(std::span(scales))));
      if (!std::ranges::all_of(scales, [](float scale) { return std::isfinite(scale) && scale > 0; })) {
        return damaged(path, fmt::format("has a scale of `{}` that is not a positive number", tensor.name));
      }
    }
    if (as_it_is) {
      state.write_rows(tensor, row, end, rows.data());
      if (part.scales != nullptr) {
        state.write_rows(*state.find(scales_of(tensor).name), row, end,
                         reinterpret_cast<const std::byte*>(scales.data()));
      }
      continue;
    }
    values.resize(static_cast<size_t>((end - row) * width));
    for (int64_t i = 0; i < end - row; ++i) {
      ops::load_row(format, rows.data() + i * row_bytes, scales[static_cast<size_t>(i)], width,
                    values.data() + i * width);
    }
    if (part.shifts != nullptr) {
      XRUN_TRY(shift(file, path, part, row, values));
    }
    state.write_values(tensor, row, end, values.data());
  }
  return {};
}

// The residuals of another number of senders: what sender i of n had is added to what sender floor(i·m / n) of m has.
// So the sum over the senders stays, exactly where the number grows.
Status redistribute(const CheckpointInfo& info, const StoredTensors& stored, const Found& found, TrainState& state) {
  const StateTensor& tensor = *found.tensor;
  const int64_t width = tensor.row_elements();
  const int64_t former = found.rows->back().row_end;
  std::vector<float> sum(static_cast<size_t>(width));
  std::vector<float> values(static_cast<size_t>(width));
  const auto bytes_of = [](std::vector<float>& floats) { return std::as_writable_bytes(std::span(floats)); };
  for (int64_t row = 0; row < tensor.rows(); ++row) {
    if (!state.has_rows(tensor, row, row + 1)) {
      continue;  // of another rank
    }
    std::ranges::fill(sum, 0.0F);
    for (const StoredRows& part : *found.rows) {
      for (int64_t old = part.row_begin; old < part.row_end; ++old) {
        if (old * tensor.rows() / former != row) {
          continue;
        }
        XRUN_ASSIGN(const StoredFile file, StoredFile::open(info, stored.files[part.file]));
        XRUN_TRY(file.read(part.tensor, (old - part.row_begin) * tensor.row_bytes(), bytes_of(values)));
        std::ranges::transform(sum, values, sum.begin(), std::plus<>());
      }
    }
    state.write_rows(tensor, row, row + 1, bytes_of(sum).data());
  }
  return {};
}

Status copy_found(const CheckpointInfo& info, const StoredTensors& stored, const std::vector<Found>& found,
                  TrainState& state) {
  std::vector<std::vector<FoundPart>> parts_of(stored.files.size());
  for (const Found& one : found) {
    if (one.tensor->role == StateTensor::Role::kResidual && one.rows->back().row_end != one.tensor->rows()) {
      XRUN_TRY(redistribute(info, stored, one, state));
      continue;
    }
    for (size_t i = 0; i < one.rows->size(); ++i) {
      const StoredRows& rows = (*one.rows)[i];
      if (!state.has_rows(*one.tensor, rows.row_begin, rows.row_end)) {
        continue;  // of another rank
      }
      const auto beside = [i](const std::vector<StoredRows>* others) {
        return others == nullptr ? nullptr : &(*others)[i];
      };
      parts_of[rows.file].push_back({one.tensor, &rows, beside(one.scales), beside(one.shifts), beside(one.velocity)});
    }
  }
  for (size_t i = 0; i < stored.files.size(); ++i) {
    if (parts_of[i].empty()) {
      continue;
    }
    XRUN_ASSIGN(const StoredFile file, StoredFile::open(info, stored.files[i]));
    for (const FoundPart& part : parts_of[i]) {
      XRUN_TRY(copy_rows(file, stored.files[i].path, part, state));
    }
  }
  return {};
}

// The part of the model that takes the number of classes: a head, or the layer of dense logits.
std::optional<FreshPart> part_of_classes(const StateTensor& tensor, const std::string& class_layer) {
  if (!tensor.head.empty()) {
    return FreshPart{tensor.head, true};
  }
  return !class_layer.empty() && is_below(class_layer, tensor.name) ? std::optional(FreshPart{class_layer, false})
                                                                    : std::nullopt;
}

}  // namespace

Status read_state(const CheckpointInfo& info, TrainState& state, bool optimizer, std::span<const Moved> moved) {
  XRUN_ASSIGN(const StoredTensors stored, read_headers(info, moved));
  std::vector<Found> found;
  for (const StateTensor& tensor : state.tensors()) {
    if (tensor.role == StateTensor::Role::kGraph && optimizer) {
      state.keep(tensor, stored.rows.contains(tensor.name));
    }
    if (state.lies_in_file(tensor) &&
        std::ranges::find(info.manifest.rows, tensor.head, &ManifestRows::head) != info.manifest.rows.end()) {
      continue;  // mapped from the checkpoint's file
    }
    const bool only_to_go_on = tensor.role == StateTensor::Role::kOptimizer ||
                               tensor.role == StateTensor::Role::kResidual || tensor.role == StateTensor::Role::kGraph;
    const bool comes_along = tensor.role == StateTensor::Role::kScale || tensor.role == StateTensor::Role::kShift;
    if (!comes_along && !(only_to_go_on && !(optimizer && tensor.kept))) {
      found.emplace_back();
      XRUN_TRY(optimizer ? find_tensor(info, stored, state, tensor, found.back())
                         : find_in_use(info, stored, state, tensor, found.back()));
    }
  }
  return copy_found(info, stored, found, state);
}

Status read_state(const CheckpointInfo& info, TrainState& state, const std::vector<std::string>& skip,
                  std::vector<FreshPart>& fresh, std::span<const Moved> moved) {
  XRUN_ASSIGN(const StoredTensors stored, read_headers(info, moved));
  const std::string class_layer = state.class_layer();
  const auto is_fresh = [&](const StateTensor& tensor) {
    const auto part = part_of_classes(tensor, class_layer);
    return part && std::ranges::find(fresh, part->path, &FreshPart::path) != fresh.end();
  };
  std::vector<Found> found;
  for (const StateTensor& tensor : state.tensors()) {
    const bool skipped = tensor.role == StateTensor::Role::kScale || tensor.role == StateTensor::Role::kGraph ||
                         tensor.role == StateTensor::Role::kShift ||
                         std::ranges::any_of(skip, [&](const auto& path) { return is_below(path, tensor.name); });
    if (tensor.role == StateTensor::Role::kOptimizer || tensor.role == StateTensor::Role::kResidual || skipped ||
        is_fresh(tensor)) {
      continue;
    }
    Found one;
    Status there = find_in_use(info, stored, state, tensor, one);
    const auto part = part_of_classes(tensor, class_layer);
    if (!there.ok() && there.error().code == "XG0702" && part) {
      fresh.push_back(*part);
      continue;
    }
    if (!there.ok()) {
      Error error = std::move(there).error();
      if (error.code == "XG0702" && error.edits.empty()) {
        error.help += fmt::format("; `init = checkpoint(..., skip=[{}])` starts it from the seed",
                                  tensor.name.substr(0, tensor.name.rfind('.')));
      }
      return error;
    }
    found.push_back(one);
  }
  // A fresh part starts anew as a whole, also if some of its tensors are stored.
  std::erase_if(found, [&](const auto& one) { return is_fresh(*one.tensor); });
  return copy_found(info, stored, found, state);
}

Result<int64_t> residual_senders(const CheckpointInfo& info, const TrainState& state, std::span<const Moved> moved) {
  const auto residual = std::ranges::find(state.tensors(), StateTensor::Role::kResidual, &StateTensor::role);
  if (residual == state.tensors().end()) {
    return 0;
  }
  XRUN_ASSIGN(const StoredTensors stored, read_headers(info, moved));
  const auto found = stored.rows.find(residual->name);
  return found == stored.rows.end() ? 0 : found->second.back().row_end;
}

Result<std::vector<StoredTensor>> list_state(const CheckpointInfo& info) {
  XRUN_ASSIGN(const StoredTensors stored, read_headers(info));
  return list(stored);
}

}  // namespace xrun::runtime
