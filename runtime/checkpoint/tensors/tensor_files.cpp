// Reading a state has three steps: read the headers of all files; find the stored rows of every tensor of the state,
// which reports all errors about missing tensors before anything changes; and copy the rows file by file, so that only
// one file is open at a time. Rows that the checkpoint lacks get their initial values before the copying.
#include "runtime/checkpoint/tensors/tensor_files.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <optional>

#include "graph/settings/group_rules.h"
#include "ops/head/catch_up.h"
#include "ops/head/row_format.h"
#include "runtime/checkpoint/tensors/found_tensors.h"
#include "runtime/checkpoint/tensors/stored_tensors.h"
#include "runtime/formats/tensors/safetensors.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kChunk = 4 * kMiB;

// Rows of a tensor of the state that one file of the checkpoint contains.
struct FoundPart {
  const StateTensor* tensor = nullptr;
  const StoredRows* rows = nullptr;
  const StoredRows* scales = nullptr;
  const StoredRows* shifts = nullptr;
  const StoredRows* velocity = nullptr;
  const RowMap* map = nullptr;
};

// Calls body(from, first, count) for the rows of a part within [begin, end): rows [from, from + count) of the
// checkpoint become rows first, first + 1, ... of the tensor.
template <typename Body>
void each_run(const FoundPart& part, int64_t begin, int64_t end, const Body& body) {
  if (part.map == nullptr) {
    body(begin, begin, end - begin);
  } else {
    part.map->each_run(begin, end, body);
  }
}

// Moves class rows that were read from the file to their current values (shifts_of); `row` is the first of these rows.
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

// Copies stored rows into `state`, a few MiB at a time. Rows in the format of the state are copied unchanged; rows in
// another format are converted, and rounded to the nearest value.
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
      each_run(part, row, end, [&](int64_t from, int64_t first, int64_t count) {
        state.write_rows(tensor, first, first + count, rows.data() + (from - row) * row_bytes);
        if (part.scales != nullptr) {
          state.write_rows(*state.find(scales_of(tensor).name), first, first + count,
                           reinterpret_cast<const std::byte*>(scales.data() + (from - row)));
        }
      });
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
    each_run(part, row, end, [&](int64_t from, int64_t first, int64_t count) {
      state.write_values(tensor, first, first + count, values.data() + (from - row) * width);
    });
  }
  return {};
}

// Reads residuals if the checkpoint has n senders and the state has m: the residuals of sender i are added to those of
// sender floor(i·m / n). This preserves the sum of the residuals over all senders, exactly if m > n.
Status redistribute(const CheckpointInfo& info, const StoredTensors& stored, const Found& found, TrainState& state) {
  const StateTensor& tensor = *found.tensor;
  const int64_t width = tensor.row_elements();
  const int64_t former = found.rows->back().row_end;
  std::vector<float> sum(static_cast<size_t>(width));
  std::vector<float> values(static_cast<size_t>(width));
  const auto bytes_of = [](std::vector<float>& floats) { return std::as_writable_bytes(std::span(floats)); };
  for (int64_t row = 0; row < tensor.rows(); ++row) {
    if (!state.has_rows(tensor, row, row + 1)) {
      continue;  // the sender is on another rank
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
      if (one.map == nullptr && !state.has_rows(*one.tensor, rows.row_begin, rows.row_end)) {
        continue;  // the sender is on another rank
      }
      const auto beside = [i](const std::vector<StoredRows>* others) {
        return others == nullptr ? nullptr : &(*others)[i];
      };
      parts_of[rows.file].push_back(
          {one.tensor, &rows, beside(one.scales), beside(one.shifts), beside(one.velocity), one.map});
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

// Returns the part of the model that a tensor with class rows belongs to; null: the tensor has no class rows.
const ClassPart* part_of(const std::vector<ClassPart>& parts, const TrainState& state, const StateTensor& tensor) {
  const auto part =
      std::ranges::find_if(parts, [&](const ClassPart& one) { return one.owns(state.parameter(tensor).name); });
  return part == parts.end() ? nullptr : &*part;
}

// Finds the stored rows of all tensors of a run that resumes. `map_of` returns the part whose row map applies to a
// tensor; null: all rows keep their numbers.
template <typename MapOf>
Result<std::vector<Found>> find_all(const CheckpointInfo& info, const StoredTensors& stored, TrainState& state,
                                    bool optimizer, const MapOf& map_of) {
  std::vector<Found> found;
  for (const StateTensor& tensor : state.tensors()) {
    const RowMap* const map = map_of(tensor);
    if (tensor.role == StateTensor::Role::kGraph && optimizer) {
      state.keep(tensor, stored.rows.contains(tensor.name) && map == nullptr);
    }
    if (state.lies_in_file(tensor) &&
        std::ranges::find(info.manifest.rows, tensor.head, &ManifestRows::head) != info.manifest.rows.end()) {
      continue;  // the rows are mapped from the checkpoint's file
    }
    const bool only_to_go_on = tensor.role == StateTensor::Role::kOptimizer ||
                               tensor.role == StateTensor::Role::kResidual || tensor.role == StateTensor::Role::kGraph;
    const bool comes_along = tensor.role == StateTensor::Role::kScale || tensor.role == StateTensor::Role::kShift;
    // Drops the residuals of a layer that has grown, since they do not fit its gradient.
    const bool grown_residual = tensor.role == StateTensor::Role::kResidual && map != nullptr;
    if (!comes_along && !grown_residual && !(only_to_go_on && !(optimizer && tensor.kept))) {
      found.emplace_back();
      XRUN_TRY(optimizer ? find_tensor(info, stored, state, tensor, map, found.back())
                         : find_in_use(info, stored, state, tensor, map, found.back()));
    }
  }
  return found;
}

int64_t stored_rows(const Found& found) { return found.rows->back().row_end; }

}  // namespace

Status read_state(const CheckpointInfo& info, TrainState& state, bool optimizer, std::span<const Moved> moved) {
  XRUN_ASSIGN(const StoredTensors stored, read_headers(info, moved));
  XRUN_ASSIGN(const auto found,
              find_all(info, stored, state, optimizer, [](const StateTensor&) -> const RowMap* { return nullptr; }));
  return copy_found(info, stored, found, state);
}

Status read_grown_state(const CheckpointInfo& info, TrainState& state, const std::vector<ClassPart>& parts,
                        const FirstRows& first) {
  XRUN_ASSIGN(const StoredTensors stored, read_headers(info, first.moved));
  // Only parts that have grown have another number of rows than the checkpoint.
  const auto grows = [&](const StateTensor& tensor) -> const ClassPart* {
    const ClassPart* part = part_of(parts, state, tensor);
    const auto weight = part == nullptr ? stored.rows.end() : stored.rows.find(part->params.front());
    return weight != stored.rows.end() && weight->second.back().row_end < part->map.rows ? part : nullptr;
  };
  XRUN_ASSIGN(const auto found, find_all(info, stored, state, true, [&](const StateTensor& tensor) {
                const ClassPart* part = grows(tensor);
                return part == nullptr ? nullptr : &part->map;
              }));
  state.initialise(
      first.seed, [&](const StateTensor& tensor) { return grows(tensor) != nullptr; }, first.moved);
  state.begin_means();
  return copy_found(info, stored, found, state);
}

Result<StartedParts> start_state(const CheckpointInfo& info, TrainState& state, const std::vector<std::string>& skip,
                                 const std::vector<ClassPart>& parts, const FirstRows& first) {
  XRUN_ASSIGN(const StoredTensors stored, read_headers(info, first.moved));
  StartedParts started;
  const auto is_fresh = [&](const StateTensor& tensor) {
    const ClassPart* part = part_of(parts, state, tensor);
    return part != nullptr && std::ranges::find(started.fresh, part->path, &FreshPart::path) != started.fresh.end();
  };
  std::map<std::string, int64_t> rows_of;  // key: path of a part; value: rows in the checkpoint
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
    const ClassPart* part = part_of(parts, state, tensor);
    Status there = find_in_use(info, stored, state, tensor, part == nullptr ? nullptr : &part->map, one);
    const bool none = there.ok() && part != nullptr && !part->map.same_rows && part->matched == 0;
    if (part != nullptr && (none || (!there.ok() && there.error().code == "XG0702"))) {
      started.fresh.push_back({part->path, part->head});
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
    if (part != nullptr) {
      rows_of[part->path] = stored_rows(one);
      // If all rows stay in place, they are read as a whole.
      one.map = part->map.same_rows && stored_rows(one) == tensor.rows() ? nullptr : one.map;
    }
    found.push_back(one);
  }
  // A fresh part keeps its initial values as a whole, even if some of its tensors are in the checkpoint.
  std::erase_if(found, [&](const auto& one) { return is_fresh(*one.tensor); });
  for (const ClassPart& part : parts) {
    if (const auto rows = rows_of.find(part.path); rows != rows_of.end()) {
      const int64_t matched = part.by_name ? part.matched : std::min(rows->second, part.classes);
      started.matched.push_back({part.path, part.head, part.by_name, matched, part.classes});
    }
  }
  state.initialise(
      first.seed,
      [&](const StateTensor& tensor) {
        return std::ranges::any_of(found,
                                   [&](const Found& one) { return one.tensor == &tensor && one.map != nullptr; });
      },
      first.moved);
  XRUN_TRY(copy_found(info, stored, found, state));
  return started;
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
