// Tests: tests/runtime/runs/mapped_runs_test.cpp
#include "runtime/checkpoint/tensors/class_row_files.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sys/stat.h>

#include "graph/base/errors.h"
#include "runtime/checkpoint/files/directory.h"

namespace xrun::runtime {
namespace {

std::string file_name(const std::string& head) { return "rows." + head; }

bool is_missing(const std::string& path) {
  struct stat what {};
  return ::lstat(path.c_str(), &what) != 0 && errno == ENOENT;
}

const ManifestRows* find_rows(const Manifest& manifest, const std::string& head) {
  const auto at = std::ranges::find(manifest.rows, head, &ManifestRows::head);
  return at == manifest.rows.end() ? nullptr : &*at;
}

std::string log_path(const CheckpointInfo& info, const ManifestRows& rows) {
  return rows_path(info, rows) + ".undo-" + rows.log;
}

// Checks that the file has the wanted sections. It may have more: a program for inference needs no optimizer states.
Status has_sections(const ClassRowFile& file, const RowsLayout& wanted) {
  RowsLayout found = file.layout();
  std::erase_if(found.sections, [&](const RowsSection& section) {
    return std::ranges::find(wanted.sections, section.name, &RowsSection::name) == wanted.sections.end();
  });
  const std::string other = difference(found, wanted);
  return other.empty() ? Status()
                       : content_error("XG0702", {"{} {}", file.path(), other},
                                       "take the checkpoint of this model, or the model of this checkpoint");
}

}  // namespace

std::string rows_path(const CheckpointInfo& info, const ManifestRows& rows) {
  return parent_of(info.path) + "/" + file_name(rows.head);
}

Result<std::shared_ptr<ClassRowFile>> restore_rows(const CheckpointInfo& info, const ManifestRows& rows,
                                                   const RowsLayout* layout, const ClassRowFileOptions& options) {
  const std::string path = rows_path(info, rows);
  XRUN_ASSIGN(const ClassRowHeader header, ClassRowFile::header_of(path));
  if (header.id == rows.rows && is_missing(log_path(info, rows))) {
    return content_error(
        "XG0710",
        {"{} no longer has class rows of `{}`: {} holds those of a later checkpoint", info.path, rows.head, path},
        {"name the newest checkpoint: {}/latest", parent_of(info.path)});
  }
  XRUN_ASSIGN(ClassRowFile file, ClassRowFile::restore(path, layout != nullptr ? *layout : header.layout,
                                                       {.rows = rows.rows, .log = rows.log}, options));
  return std::make_shared<ClassRowFile>(std::move(file));
}

Status map_rows_of(const CheckpointInfo& info, TrainState& state) {
  for (const MappedHead& head : state.mapped_heads()) {
    const ManifestRows* const rows = find_rows(info.manifest, head.name);
    if (rows == nullptr || state.rows()[head.head] != nullptr) {
      continue;
    }
    XRUN_ASSIGN(auto file, restore_rows(info, *rows, nullptr));
    XRUN_TRY(has_sections(*file, head.layout));
    XRUN_TRY(state.map_rows(head, std::move(file)));
  }
  return {};
}

Status ClassRowFiles::make(TrainState& state, int64_t after) {
  for (const MappedHead& head : state.mapped_heads()) {
    if (files_.contains(head.name)) {
      continue;
    }
    const std::string path = directory_ + "/" + file_name(head.name);
    for (const int64_t step : steps_in(directory_)) {
      const auto info = open_checkpoint(directory_ + "/" + step_name(step));
      const ManifestRows* const rows = info.ok() ? find_rows(info->manifest, head.name) : nullptr;
      if (step > after && rows != nullptr && !is_missing(log_path(*info, *rows))) {
        return content_error(
            "XG0711", {"{} holds the class rows of {} and would be overwritten", path, info->path},
            {"give this run a directory of its own with -C or `checkpoint {{ dir }}`, or remove {}", directory_});
      }
    }
    XRUN_ASSIGN(ClassRowFile made, ClassRowFile::create(path, head.layout, options_));
    auto file = std::make_shared<ClassRowFile>(std::move(made));
    XRUN_TRY(state.map_rows(head, file));
    files_.emplace(head.name, std::move(file));
  }
  return {};
}

Status ClassRowFiles::resume(const CheckpointInfo& info, TrainState& state) {
  for (const MappedHead& head : state.mapped_heads()) {
    const ManifestRows* const rows = find_rows(info.manifest, head.name);
    if (rows == nullptr) {
      continue;  // the rows were in memory when the checkpoint was written
    }
    std::error_code ignored;
    if (!std::filesystem::equivalent(parent_of(info.path), directory_, ignored)) {
      return content_error(
          "XG0713",
          {"the class rows of {} are next to it, but this run keeps its class rows in {}", info.path, directory_},
          "continue in the directory of the checkpoint, with -C or `checkpoint { dir }`");
    }
    XRUN_ASSIGN(auto file, restore_rows(info, *rows, &head.layout, options_));
    XRUN_TRY(state.map_rows(head, file));
    files_.emplace(head.name, std::move(file));
  }
  return make(state, info.manifest.step);  // rows of older steps may be overwritten, as in every save
}

Result<std::vector<ManifestRows>> ClassRowFiles::prepare(int64_t step) {
  std::vector<ManifestRows> rows;
  for (const auto& [head, file] : files_) {
    XRUN_ASSIGN(const RowsVersion version, file->prepare_checkpoint(step));
    rows.push_back({head, version.rows, version.log});
  }
  return rows;
}

void ClassRowFiles::switch_to_prepared() {
  for (const auto& [head, file] : files_) {
    file->switch_checkpoint();
  }
}

Status ClassRowFiles::give_up() {
  Status status;
  for (const auto& [head, file] : files_) {
    if (Status one = file->give_up_checkpoint(); status.ok()) {
      status = std::move(one);
    }
  }
  return status;
}

Status ClassRowFiles::close() {
  Status status;
  for (const auto& [head, file] : files_) {
    if (Status one = file->close(); status.ok()) {
      status = std::move(one);
    }
  }
  return status;
}

}  // namespace xrun::runtime
