#include "runtime/checkpoint/tensor_files.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>

#include "runtime/formats/safetensors.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kChunk = 4 * kMiB;

// What the format calls a type.
std::string_view safetensors_name(DType dtype) {
  constexpr std::string_view kNames[] = {"F64", "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2",
                                         "I64", "I32", "I16",  "I8",  "U8",      "BOOL"};
  static_assert(std::size(kNames) == static_cast<size_t>(DType::kBool) + 1);
  return kNames[static_cast<size_t>(dtype)];
}

// Rows of a tensor in one of the files.
struct StoredRows {
  size_t file = 0;
  SafeTensor tensor;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

// What the headers say. The files themselves are open one at a time, since a checkpoint can have more of them than a
// process may have open.
struct StoredTensors {
  std::vector<std::string> files;                       // paths
  std::map<std::string, std::vector<StoredRows>> rows;  // by tensor, ascending
};

std::optional<int64_t> whole(const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto at = metadata.find(key);
  if (at == metadata.end() || at->second.empty() || at->second.size() > 18 ||
      at->second.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoll(at->second);
}

Result<StoredTensors> read_headers(const CheckpointInfo& info) {
  StoredTensors stored;
  for (const ManifestFile& entry : info.manifest.files) {
    if (entry.name == kModelFile) {
      continue;
    }
    const std::string path = info.path + "/" + entry.name;
    XRUN_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(path));
    if (file.header().header_bytes + file.header().data_bytes != entry.bytes) {
      return damaged(path, fmt::format("has {} bytes, not {}", file.header().header_bytes + file.header().data_bytes,
                                       entry.bytes));
    }
    const auto& metadata = file.header().metadata;
    const bool head = metadata.contains("tensor");
    const auto begin = whole(metadata, "row_begin");
    const auto end = whole(metadata, "row_end");
    if (head && (!begin || !end)) {
      return damaged(path, "does not say which rows it holds");
    }
    for (const SafeTensor& tensor : file.header().tensors) {
      const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
      const StoredRows part{stored.files.size(), tensor, head ? *begin : 0, head ? *end : rows};
      if (part.row_end - part.row_begin != rows) {
        return damaged(
            path, fmt::format("has {} rows of `{}`, but says {}", rows, tensor.name, part.row_end - part.row_begin));
      }
      stored.rows[tensor.name].push_back(part);
    }
    stored.files.push_back(path);
  }
  for (auto& [name, parts] : stored.rows) {
    std::ranges::sort(parts, {}, &StoredRows::row_begin);
  }
  return stored;
}

// By name.
std::vector<StoredTensor> list(const StoredTensors& stored) {
  std::vector<StoredTensor> tensors;
  for (const auto& [name, parts] : stored.rows) {
    StoredTensor one{name, parts[0].tensor.dtype, parts[0].tensor.shape};
    if (!one.shape.empty()) {
      one.shape[0] = parts.back().row_end;
    }
    tensors.push_back(std::move(one));
  }
  return tensors;
}

// The stored form of `tensor`, or what is wrong with it. `found` stays null where it is not there.
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
    if (dims != tensor.type.dims || part.tensor.dtype != safetensors_name(tensor.type.dtype)) {
      return other_form(state, tensor,
                        fmt::format("`{}` is {} in the model, but {} {} in the checkpoint {}", tensor.name,
                                    to_text(tensor.type), part.tensor.dtype, shape_text(part.tensor.shape), info.path));
    }
    if (part.row_begin != next) {
      return damaged(info.path, fmt::format("has rows of `{}` twice or not at all, at row {}", tensor.name, next));
    }
    next = part.row_end;
  }
  if (next != tensor.rows()) {
    return other_form(state, tensor,
                      fmt::format("`{}` has {} rows in the model, but {} in the checkpoint {}", tensor.name,
                                  format_count(tensor.rows()), format_count(next), info.path),
                      tensor.head.empty() ? "" : "give the head as many classes as the checkpoint has");
  }
  found = &at->second;
  return {};
}

// Reads the rows of `part` into `state`, a few MiB at a time.
Status copy_rows(const SafetensorsFile& file, const StoredRows& part, const StateTensor& tensor, TrainState& state,
                 std::vector<std::byte>& buffer) {
  const Bytes row_bytes = tensor.row_bytes();
  const int64_t step = std::max<int64_t>(1, row_bytes == 0 ? INT64_MAX : kChunk / row_bytes);
  for (int64_t row = part.row_begin; row < part.row_end && row_bytes > 0; row += step) {
    const int64_t end = std::min(part.row_end, row + step);
    buffer.resize(static_cast<size_t>((end - row) * row_bytes));
    XRUN_TRY(file.read(part.tensor, (row - part.row_begin) * row_bytes, buffer));
    state.write_rows(tensor, row, end, buffer.data());
  }
  return {};
}

// One file to be: rows [row_begin, row_end) of some tensors, or all of each.
struct FilePlan {
  std::string name;
  std::vector<const StateTensor*> tensors;
  bool head = false;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

std::vector<FilePlan> plan_files(const TrainState& state, Bytes range_bytes) {
  FilePlan trunk{.name = "trunk.safetensors"};
  FilePlan optimizer{.name = "trunk.optim.safetensors"};
  std::map<std::string, std::vector<const StateTensor*>> heads;
  for (const StateTensor& tensor : state.tensors()) {
    if (!tensor.kept) {
      continue;
    }
    if (!tensor.head.empty()) {
      heads[tensor.head].push_back(&tensor);
    } else {
      (tensor.role == StateTensor::Role::kOptimizer ? optimizer : trunk).tensors.push_back(&tensor);
    }
  }
  std::vector<FilePlan> files{trunk};
  if (!optimizer.tensors.empty()) {
    files.push_back(optimizer);
  }
  for (const auto& [head, tensors] : heads) {
    Bytes row_bytes = 0;
    for (const StateTensor* tensor : tensors) {
      row_bytes += tensor->row_bytes();
    }
    const int64_t rows = tensors[0]->rows();
    int64_t range = std::max<int64_t>(1, range_bytes / std::max<Bytes>(row_bytes, 1));
    range = range > 64 ? range / 64 * 64 : range;
    for (int64_t row = 0; row < rows; row += range) {
      files.push_back({.name = fmt::format("head.{}.r{:010}.safetensors", head, row),
                       .tensors = tensors,
                       .head = true,
                       .row_begin = row,
                       .row_end = std::min(rows, row + range)});
    }
  }
  return files;
}

// A run that has gone wrong must not take the place of what it had learned before.
Status expect_finite(const StateTensor& tensor, std::span<const std::byte> rows) {
  if (tensor.type.dtype != DType::kF32) {
    return {};
  }
  const std::span numbers(reinterpret_cast<const float*>(rows.data()), rows.size() / sizeof(float));
  if (std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); })) {
    return {};
  }
  return Error{ErrorKind::kNonFinite, "XG0810", "`" + tensor.name + "` is no longer finite, so it is not saved",
               "go on from an older checkpoint with a lower `train.lr` or with `train.clip = norm(1)`"};
}

Result<ManifestFile> write_file(const TrainState& state, const FilePlan& plan, const std::string& directory, Io& io) {
  std::vector<SafeTensor> tensors;
  std::map<std::string, std::string> metadata{{"format", "xrun 1"}};
  for (const StateTensor* tensor : plan.tensors) {
    SafeTensor one{
        .name = tensor->name, .dtype = std::string(safetensors_name(tensor->type.dtype)), .shape = tensor->type.dims};
    if (plan.head) {
      one.shape[0] = plan.row_end - plan.row_begin;
    }
    tensors.push_back(std::move(one));
  }
  if (plan.head) {
    metadata["tensor"] = plan.tensors[0]->name;
    metadata["row_begin"] = std::to_string(plan.row_begin);
    metadata["row_end"] = std::to_string(plan.row_end);
    metadata["rows"] = std::to_string(plan.tensors[0]->rows());
  }
  lay_out(tensors);
  XRUN_ASSIGN(auto writer, SafetensorsWriter::create(directory + "/" + plan.name, tensors, metadata, io));
  std::vector<std::byte> buffer;
  for (const SafeTensor& one : tensors) {
    const StateTensor& tensor = *state.find(one.name);
    const Bytes row_bytes = tensor.row_bytes();
    const int64_t end = plan.head ? plan.row_end : tensor.rows();
    const int64_t step = std::max<int64_t>(1, kChunk / std::max<Bytes>(row_bytes, 1));
    for (int64_t row = plan.row_begin; row < end && row_bytes > 0; row += step) {
      const int64_t last = std::min(end, row + step);
      buffer.resize(static_cast<size_t>((last - row) * row_bytes));
      state.read_rows(tensor, row, last, buffer.data());
      XRUN_TRY(expect_finite(tensor, buffer));
      XRUN_TRY(writer.write(buffer));
    }
  }
  XRUN_TRY(writer.finish());
  return ManifestFile{plan.name, writer.bytes(), writer.digest()};
}

}  // namespace

Result<std::vector<ManifestFile>> write_state(const TrainState& state, const std::string& directory, Bytes range_bytes,
                                              Io& io) {
  std::vector<ManifestFile> files;
  for (const FilePlan& plan : plan_files(state, range_bytes)) {
    XRUN_ASSIGN(ManifestFile file, write_file(state, plan, directory, io));
    files.push_back(std::move(file));
  }
  return files;
}

namespace {

// Where a tensor of the state lies in the files.
using Found = std::vector<std::pair<const StateTensor*, const std::vector<StoredRows>*>>;

Status copy_found(const StoredTensors& stored, const Found& found, TrainState& state) {
  std::vector<std::vector<std::pair<const StateTensor*, const StoredRows*>>> parts_of(stored.files.size());
  for (const auto& [tensor, parts] : found) {
    for (const StoredRows& part : *parts) {
      parts_of[part.file].emplace_back(tensor, &part);
    }
  }
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < stored.files.size(); ++i) {
    if (parts_of[i].empty()) {
      continue;
    }
    XRUN_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(stored.files[i]));
    for (const auto& [tensor, part] : parts_of[i]) {
      XRUN_TRY(copy_rows(file, *part, *tensor, state, buffer));
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

Status read_state(const CheckpointInfo& info, TrainState& state, bool optimizer) {
  XRUN_ASSIGN(const StoredTensors stored, read_headers(info));
  Found found;
  for (const StateTensor& tensor : state.tensors()) {
    const bool only_to_go_on = tensor.role == StateTensor::Role::kOptimizer || tensor.role == StateTensor::Role::kGraph;
    if (tensor.role == StateTensor::Role::kGraph && optimizer) {
      state.keep(tensor, stored.rows.contains(tensor.name));
    }
    if (tensor.kept && (optimizer || !only_to_go_on)) {
      const std::vector<StoredRows>* rows = nullptr;
      XRUN_TRY(find_rows(info, stored, state, tensor, rows));
      found.emplace_back(&tensor, rows);
    }
  }
  return copy_found(stored, found, state);
}

Status read_state(const CheckpointInfo& info, TrainState& state, const std::vector<std::string>& skip,
                  std::vector<FreshPart>& fresh) {
  XRUN_ASSIGN(const StoredTensors stored, read_headers(info));
  const std::string class_layer = state.class_layer();
  const auto is_fresh = [&](const StateTensor& tensor) {
    const auto part = part_of_classes(tensor, class_layer);
    return part && std::ranges::find(fresh, part->path, &FreshPart::path) != fresh.end();
  };
  Found found;
  for (const StateTensor& tensor : state.tensors()) {
    const bool skipped = std::ranges::any_of(skip, [&](const auto& path) { return is_below(path, tensor.name); });
    if (tensor.role == StateTensor::Role::kOptimizer || tensor.role == StateTensor::Role::kGraph || skipped ||
        is_fresh(tensor)) {
      continue;
    }
    const std::vector<StoredRows>* rows = nullptr;
    Status there = find_rows(info, stored, state, tensor, rows);
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
    found.emplace_back(&tensor, rows);
  }
  // All of a part that is new, also where some of its tensors are there.
  std::erase_if(found, [&](const auto& one) { return is_fresh(*one.first); });
  return copy_found(stored, found, state);
}

Result<std::vector<StoredTensor>> list_state(const CheckpointInfo& info) {
  XRUN_ASSIGN(const StoredTensors stored, read_headers(info));
  return list(stored);
}

}  // namespace xrun::runtime
