#include "runtime/cli/model/trained_model.h"

#include <filesystem>
#include <fmt/format.h>
#include <optional>

#include "runtime/checkpoint/tensors/mismatch.h"
#include "runtime/cli/model/model_form.h"
#include "runtime/cli/model/plan_flags.h"

namespace xrun::cli {
namespace {

// Checks the text of a checkpoint again. Returns nullopt if this version of xrun rejects the text.
std::optional<lang::CheckedFile> elaborate(const runtime::ModelText& text, bool f32_inputs = false) {
  std::string file;
  const GlobalOptions options = with_plan_options({.f32_inputs = f32_inputs}, text.options, file);
  const lang::Texts texts(text.files.begin(), text.files.end());
  auto checked = read_quietly(file, options, &texts);
  if (checked && options.deterministic) {
    checked->module.train.deterministic = true;
  }
  return checked;
}

}  // namespace

Outcome<PlannedModel> plan_for(const Result<runtime::CheckpointInfo>& checkpoint, const std::string& path,
                               const GlobalOptions& options, const Console& console) {
  if (!path.empty()) {
    return plan_from(path, options, console, true);
  }
  XRUN_ASSIGN(const auto text, checkpoint.ok() ? runtime::read_model_text(checkpoint->path, checkpoint->manifest)
                                               : Result<runtime::ModelText>(checkpoint.error()));
  std::string file;
  const GlobalOptions all = with_plan_options(options, text.options, file);
  const lang::Texts texts(text.files.begin(), text.files.end());
  return plan_texts(file, texts, all, console);
}

Status check_checkpoint(const PlannedModel& planned, const std::string& path, bool anyway,
                        const Result<runtime::CheckpointInfo>& checkpoint, bool f32_inputs) {
  constexpr size_t kMostLines = 12;
  if (!checkpoint.ok()) {
    return checkpoint.error();
  }
  const runtime::CheckpointInfo& info = *checkpoint;
  if (path.empty() || anyway || !runtime::has_model_text(info.manifest)) {
    return {};
  }
  XRUN_ASSIGN(const auto text, runtime::read_model_text(info.path, info.manifest));
  const auto then = elaborate(text, f32_inputs);
  const Module& now = planned.model.file.module;
  const std::vector<Moved>& moved = planned.model.file.run.moved;
  if (!then || tensor_names(then->module, moved) != tensor_names(now, moved)) {
    return {};
  }
  auto lines = differences(inference_form(then->module), inference_form(now), kMostLines);
  return lines.empty() ? Status() : Status(runtime::other_model(path, info.path, std::move(lines)));
}

Result<runtime::ClassTables> trained_classes(const PlannedModel& planned, const runtime::CheckpointInfo& info) {
  const Module& module = planned.model.file.module;
  XRUN_ASSIGN(runtime::ClassTables tables, runtime::read_classes(info));
  tables = runtime::of_graph(std::move(tables), module.graph);
  for (runtime::ClassTable& table : tables) {
    table = runtime::renamed(std::move(table), module.data.moved_classes);
  }
  return tables;
}

runtime::RunDifference difference_from(const runtime::CheckpointInfo& info, const lang::CheckedFile& file) {
  const auto text = runtime::read_model_text(info.path, info.manifest);
  const auto then = text.ok() ? elaborate(*text) : std::nullopt;
  if (!then) {
    return {};
  }
  const auto found = lang::math_differences(*then, file);
  runtime::RunDifference difference{.lines = {}, .extends = !found.empty()};
  for (const lang::MathDifference& one : found) {
    const bool length_or_rate = one.what == "train.epochs" || one.what == "train.steps" || one.what == "train.lr";
    difference.extends = difference.extends && (length_or_rate || one.is_class_count);
    if (one.what != "model") {
      difference.lines.push_back(fmt::format("`{}` was {}, and is {} now", one.what, one.then, one.now));
      continue;
    }
    constexpr size_t kFew = 4;
    const auto lines = differences(inference_form(then->module), inference_form(file.module), kFew);
    difference.lines.push_back(one.is_class_count ? "the model has another number of classes"
                                                  : "the model or its loss differs");
    difference.lines.insert(difference.lines.end(), lines.begin(), lines.end());
  }
  const std::string& stored = info.manifest.math_digest;
  if (stored != then->module.math_digest && stored == lang::earlier_math_digest(*then)) {
    difference.extends = difference.extends || found.empty();
    difference.lines.push_back(
        "`at` of `steps` in `train.lr` was counted from the beginning of the curve, and is now counted from the start "
        "of the run");
  }
  return difference;
}

Status check_init(const lang::CheckedFile& file) {
  const TrainSpec& train = file.module.train;
  if (train.init_checkpoint.empty()) {
    return {};
  }
  const auto info = runtime::open_checkpoint(std::filesystem::path(train.directory) / train.init_checkpoint);
  if (info.ok()) {
    return {};
  }
  Error error = info.error();
  error.span = file.run.init_span;
  return error;
}

runtime::ModelText text_of(const PlannedModel& planned) {
  runtime::ModelText text;
  const SourceMap& sources = planned.model.sources;
  for (const SourceDigest& source : planned.model.file.module.sources) {
    for (int32_t file = 0; file < sources.size(); ++file) {
      if (source_path(sources.path(file)) == source.path) {
        text.files.emplace_back(source.path, std::string(sources.text(file)));
        break;
      }
    }
  }
  for (const auto& [name, value] : planned.plan.options) {
    // These flags describe the machine of training.
    if (name != "devices" && name != "gpu" && name != "threads" && name != "cost" && name != "layer-times") {
      text.options.emplace_back(name, name == "file" ? source_path(value) : value);
    }
  }
  return text;
}

}  // namespace xrun::cli
