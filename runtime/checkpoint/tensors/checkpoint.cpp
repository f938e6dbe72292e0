#include "runtime/checkpoint/tensors/checkpoint.h"

#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <optional>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "runtime/checkpoint/files/class_names.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/read_file.h"
#include "runtime/checkpoint/tensors/class_row_files.h"
#include "runtime/checkpoint/tensors/tensor_files.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

Error nothing_at(const std::string& path) {
  std::error_code ignored;
  const std::string why = fs::is_directory(path, ignored) ? "there is no step in this directory"
                          : fs::exists(path, ignored)     ? "it is a file"
                                                          : "there is no such directory";
  return content_error("XG0713", {"no checkpoint at {}: {}", path, why},
                       "name a step directory, the directory that holds it, or `latest`");
}

// Returns the step directory of a checkpoint path; nullopt if the path does not lead to one.
Result<std::optional<std::string>> step_directory(const std::string& path) {
  std::error_code ignored;
  std::string given = path;
  while (given.size() > 1 && given.ends_with('/')) {
    given.pop_back();
  }
  XRUN_ASSIGN(const bool whole, is_step(given));
  if (whole) {
    return std::optional(given);
  }
  const fs::path as_path(given);
  const std::string parent = as_path.parent_path().empty() ? "." : as_path.parent_path().string();
  if (as_path.filename() == "best" && !fs::is_directory(given, ignored)) {
    XRUN_ASSIGN(const auto best, best_in(parent));
    return best ? std::optional(parent + "/" + *best) : std::nullopt;
  }
  if (as_path.filename() == "latest" && !fs::is_directory(given, ignored)) {
    given = parent;
  }
  XRUN_ASSIGN(auto newest, newest_in(given));
  return newest ? std::optional(given + "/" + *newest) : std::nullopt;
}

}  // namespace

bool is_checkpoint(const std::string& path) {
  const auto directory = step_directory(path);
  return !directory.ok() || directory->has_value();  // open_checkpoint reports read errors
}

Result<CheckpointInfo> open_checkpoint(const std::string& path) {
  XRUN_ASSIGN(const auto directory, step_directory(path));
  if (!directory) {
    return nothing_at(path);
  }
  XRUN_ASSIGN(const std::string text, read_text(*directory + "/manifest.json", kMostManifestBytes));
  return parse_checkpoint(*directory, text);
}

Result<CheckpointInfo> parse_checkpoint(const std::string& path, const std::string& text) {
  CheckpointInfo info{.path = path};
  const std::string name = info.path + "/manifest.json";
  XRUN_ASSIGN(info.manifest, parse_manifest(text, name));
  const auto step = step_of_name(fs::path(info.path).filename().string());
  if (step && *step != info.manifest.step) {
    return damaged(name, fmt::format("belongs to step {}, but its directory names another step", info.manifest.step));
  }
  info.bytes = static_cast<Bytes>(text.size());
  for (const ManifestFile& file : info.manifest.files) {
    if (file.bytes > std::numeric_limits<Bytes>::max() - info.bytes) {
      return damaged(name, "lists more bytes than a file system can hold");
    }
    info.bytes += file.bytes;
  }
  return info;
}

Status verify_file(const std::string& path, const ManifestFile& expected) {
  Xxh128 hash;
  XRUN_TRY(stream_file(path, expected.bytes, [&](std::span<const std::byte> piece) -> Status {
    hash.add(piece);
    return {};
  }));
  return hash.hex() == expected.xxh3 ? Status() : damaged(path, "does not match its digest");
}

Status verify_checkpoint(const CheckpointInfo& info) {
  for (const ManifestFile& file : info.manifest.files) {
    XRUN_TRY(verify_file(info.path + "/" + file.name, file));
  }
  return {};
}

Result<ClassTables> read_classes(const CheckpointInfo& info) {
  ClassTables tables;
  for (const ManifestClasses& classes : info.manifest.classes) {
    ClassTable& table = tables.emplace_back(ClassTable{.input = classes.input, .named = classes.named > 0});
    if (info.manifest.format == 1) {
      table.names = info.manifest.class_names;
    } else if (table.named) {
      XRUN_ASSIGN(table.names, read_class_names(info.path + "/..", classes.xxh3));
    }
    if (std::ssize(table.names) != classes.named) {
      return damaged(info.path,
                     fmt::format("has {} class names, but its manifest says {}", table.names.size(), classes.named));
    }
  }
  return tables;
}

Status load_checkpoint(const CheckpointInfo& info, TrainState& state, bool optimizer, std::span<const Moved> moved) {
  XRUN_TRY(verify_checkpoint(info));
  XRUN_TRY(map_rows_of(info, state));
  return read_state(info, state, optimizer, moved);
}

}  // namespace xrun::runtime
