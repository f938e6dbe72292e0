// Tests: tests/runtime/checkpoint/tensors/checkpoint_test.cpp, tests/runtime/runs/moved_names_test.cpp
#include "runtime/checkpoint/tensors/stored_tensors.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "graph/base/errors.h"
#include "graph/settings/group_rules.h"
#include "runtime/checkpoint/tensors/class_row_files.h"
#include "runtime/checkpoint/tensors/model_text.h"

namespace xrun::runtime {
namespace {

std::optional<int64_t> whole(const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto at = metadata.find(key);
  if (at == metadata.end() || at->second.empty() || at->second.size() > 18 ||
      at->second.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoll(at->second);
}

// Returns the type of a section; nullopt if its name is unknown or does not fit the section's bytes per row.
std::optional<DType> type_of(const RowsSection& section) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI32}) {
    if (section.dtype == name_of(dtype) && section.row_bytes % size_of(dtype) == 0) {
      return dtype;
    }
  }
  return std::nullopt;
}

// Adds the sections of a rows file as tensors: class weights and their optimizer states are matrices, and a section
// with a single number per row is a vector.
Status read_class_row_header(const CheckpointInfo& info, const ManifestRows& rows, StoredTensors& stored) {
  const std::string path = rows_path(info, rows);
  XRUN_ASSIGN(const ClassRowHeader header, ClassRowFile::header_of(path));
  if (header.id != rows.rows) {
    return damaged(path, "belongs to another run than the checkpoint");
  }
  const RowsLayout& layout = header.layout;
  for (const RowsSection& section : layout.sections) {
    const auto dtype = type_of(section);
    if (!dtype) {
      return damaged(path, fmt::format("has `{}` in an unknown format: {}, {} bytes a row", section.name, section.dtype,
                                       section.row_bytes));
    }
    const bool list = !section.name.starts_with(layout.tensor) || section.name == layout.tensor + ".scale" ||
                      section.name == layout.tensor + ".last";
    SafeTensor tensor{.name = section.name, .dtype = std::string(safetensors_name(*dtype)), .shape = {layout.rows}};
    if (!list) {
      tensor.shape.push_back(section.row_bytes / size_of(*dtype));
    }
    stored.rows[section.name].push_back(
        {stored.files.size(), std::move(tensor), layout.row_begin, layout.row_begin + layout.rows});
  }
  stored.files.push_back({path, &rows});
  return {};
}

// Gives each tensor the name that it has after all renamings.
Status rename(StoredTensors& stored, std::span<const Moved> moved, const std::string& path) {
  std::map<std::string, std::vector<StoredRows>> renamed;
  std::map<std::string, std::string> stored_names;
  for (auto& [name, rows] : stored.rows) {
    const std::string now = last_name(moved, name);
    const auto [other, fresh] = stored_names.try_emplace(now, name);
    if (!fresh) {
      const std::string& old = now == name ? other->second : name;
      Error error = content_error(
          "XG0719", {"{} has both `{}` and `{}`, but the model says that the first became the second", path, old, now},
          "remove the `moved` if they are two tensors; else use a checkpoint from before or after the renaming");
      const auto move = std::ranges::find_if(moved, [&](const Moved& one) { return is_below(one.from, old); });
      error.span = move == moved.end() ? Span() : move->span;
      error.label = "the model says so here";
      return error;
    }
    renamed[now] = std::move(rows);
  }
  stored.rows = std::move(renamed);
  return {};
}

// Checks that no head with class rows in a file is renamed: the file is named after its head, and is used in place.
Status check_rows(const CheckpointInfo& info, std::span<const Moved> moved) {
  for (const ManifestRows& rows : info.manifest.rows) {
    if (const std::string now = last_name(moved, rows.head); now != rows.head) {
      return content_error("XG0719",
                           {"{} keeps class rows in a file named after the head `{}`, which the model calls `{}`",
                            info.path, rows.head, now},
                           {"give the head its old name: head {} = ...", rows.head});
    }
  }
  return {};
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  constexpr std::string_view kNames[] = {"F64", "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2",
                                         "I64", "I32", "I16",  "I8",  "U8",      "BOOL"};
  static_assert(std::size(kNames) == static_cast<size_t>(DType::kBool) + 1);
  return kNames[static_cast<size_t>(dtype)];
}

Result<StoredTensors> read_headers(const CheckpointInfo& info, std::span<const Moved> moved) {
  XRUN_TRY(check_rows(info, moved));
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
        return damaged(path, fmt::format("has {} rows of `{}`, but its header says {}", rows, tensor.name,
                                         part.row_end - part.row_begin));
      }
      stored.rows[tensor.name].push_back(part);
    }
    stored.files.push_back({path});
  }
  for (const ManifestRows& rows : info.manifest.rows) {
    XRUN_TRY(read_class_row_header(info, rows, stored));
  }
  XRUN_TRY(rename(stored, moved, info.path));
  for (auto& [name, parts] : stored.rows) {
    std::ranges::sort(parts, {}, &StoredRows::row_begin);
  }
  return stored;
}

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

Result<StoredFile> StoredFile::open(const CheckpointInfo& info, const StoredPlace& place) {
  StoredFile file;
  if (place.rows != nullptr) {
    XRUN_ASSIGN(file.rows_, restore_rows(info, *place.rows, nullptr));
  } else {
    XRUN_ASSIGN(SafetensorsFile tensors, SafetensorsFile::open(place.path));
    file.tensors_.emplace(std::move(tensors));
  }
  return file;
}

Status StoredFile::read(const SafeTensor& tensor, Bytes offset, std::span<std::byte> out) const {
  if (rows_ == nullptr) {
    return tensors_->read(tensor, offset, out);
  }
  const auto& sections = rows_->layout().sections;
  const auto section = std::ranges::find(sections, tensor.name, &RowsSection::name);
  return section == sections.end() ? Status(damaged(rows_->path(), "has changed while it was read"))
                                   : rows_->read(static_cast<size_t>(section - sections.begin()), offset, out);
}

}  // namespace xrun::runtime
