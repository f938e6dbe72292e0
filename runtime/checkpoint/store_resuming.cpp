// Resuming: finds the checkpoint, checks that it belongs to the run, verifies its files and loads the state.
// Tests: tests/runtime/checkpoint/store_test.cpp, tests/runtime/checkpoint/copies/second_copy_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "runtime/checkpoint/directory_store.h"
#include "runtime/checkpoint/resume_checks.h"
#include "runtime/checkpoint/tensors/tensor_files.h"

namespace xrun::runtime {

Result<std::optional<ClassTables>> DirectoryStore::classes() {
  XRUN_ASSIGN(const auto found, find());
  if (!found) {
    return std::optional<ClassTables>();
  }
  XRUN_ASSIGN(ClassTables tables, read_classes(found->info));
  return std::optional(std::move(tables));
}

Result<InputScales> DirectoryStore::scales() {
  XRUN_ASSIGN(const auto found, find());
  return found ? found->info.manifest.scales : InputScales();
}

Result<StartedParts> DirectoryStore::start_from(const std::string& path, const std::vector<std::string>& skip,
                                                TrainState& state) {
  XRUN_ASSIGN(const CheckpointInfo info, open_checkpoint(path));
  XRUN_TRY(verify(info));
  XRUN_ASSIGN(const auto parts, match(info, state));
  return start_state(info, state, skip, parts, {options_.seed, options_.moved});
}

Result<std::optional<CheckpointStore::Resumed>> DirectoryStore::resume(TrainState& state) {
  XRUN_ASSIGN(const auto found, find());
  if (!found) {
    return std::optional<Resumed>();
  }
  const CheckpointInfo& info = found->info;
  XRUN_TRY(check_digest(info, options_));
  XRUN_TRY(check_samples(info, options_));
  std::vector<std::string> restored;
  if (Status loaded = load(*found, state, restored); !loaded.ok()) {
    Error error = std::move(loaded).error();
    const bool may_be_older = error.code == "XG0710" && info.manifest.rows.empty();
    if (const auto older = older_than(info.manifest.step); may_be_older && older) {
      error.help = fmt::format("continue from an older one: --resume {}", *older);
    }
    return error;
  }
  state.set_loss_scale(resumed_scale(state.loss_scale_spec(), info.manifest.loss_scale.value_or(state.loss_scale())));
  history_ = info.manifest.history;
  records_ = info.manifest.records;
  if (info.manifest.math_digest != options_.math_digest) {
    const RunDifference difference = options_.compare ? options_.compare(info) : RunDifference();
    history_.push_back({info.manifest.step, info.manifest.math_digest, difference.lines});
  }
  std::vector<WarnEvent> warnings = resume_warnings(info.manifest, options_);
  add_copy_warning(info, restored, options_, warnings);
  XRUN_ASSIGN(const int64_t senders, residual_senders(info, state, options_.moved));
  add_sender_warning(info.manifest, senders, state, warnings);
  return std::optional<Resumed>(
      {.step = info.manifest.step, .path = info.path, .warnings = std::move(warnings), .records = records_});
}

// Returns the checkpoint to resume from, with its manifest.
Result<std::optional<FoundStep>> DirectoryStore::find() {
  std::string path = options_.resume;
  if (path == "never") {
    return std::optional<FoundStep>();
  }
  if (copies_ != nullptr) {
    XRUN_ASSIGN(const auto name, step_meant(copy_places(), path));
    if (name && name->empty() && path == "auto") {
      return std::optional<FoundStep>();
    }
    if (name && !name->empty()) {
      XRUN_ASSIGN(FoundStep found, find_step(copy_places(), *name));
      return std::optional(std::move(found));
    }
  } else if (path == "auto") {
    const auto find = [&]() -> Result<std::string> {
      XRUN_ASSIGN(const auto newest, newest_in(options_.directory));
      return newest.value_or("");
    };
    XRUN_ASSIGN(const std::string newest, lead(find));
    if (newest.empty()) {
      return std::optional<FoundStep>();
    }
    path = options_.directory + "/" + newest;
  }
  XRUN_ASSIGN(CheckpointInfo info, open_checkpoint(path));
  return std::optional(FoundStep{.info = std::move(info)});
}

CopyPlaces DirectoryStore::copy_places() const {
  return {.directory = options_.directory,
          .copies = copies_->path(),
          .reads = copies_->copies(),
          .peers = options_.peers,
          .io = options_.io};
}

// Loads a checkpoint into `state`. `names` returns the files that were restored from second copies.
Status DirectoryStore::load(const FoundStep& found, TrainState& state, std::vector<std::string>& names) {
  const CheckpointInfo& info = found.info;
  const bool may_be_copied = copies_ != nullptr && parent_of(info.path) == options_.directory;
  if (may_be_copied) {
    XRUN_ASSIGN(names, restore_files(copy_places(), found));
  } else {
    XRUN_TRY(verify(info));
  }
  if (Status mapped = rows_.resume(info, state); !mapped.ok()) {
    Error error = std::move(mapped).error();
    if (options_.extend && error.code == "XG0702") {
      error.help =
          "the number of class rows in a file cannot change: begin another run from these weights with `init = "
          "checkpoint(...)` and -C";
    }
    return error;
  }
  if (!options_.extend) {
    return read_state(info, state, true, options_.moved);
  }
  XRUN_ASSIGN(std::vector<ClassPart> parts, match(info, state));
  for (ClassPart& part : parts) {
    part.map = {.to = {}, .same_rows = true, .rows = part.map.rows};  // added classes follow the stored ones
  }
  return read_grown_state(info, state, parts, {options_.seed, options_.moved});
}

// Verifies the files of a checkpoint; each rank verifies a share of them.
Status DirectoryStore::verify(const CheckpointInfo& info) {
  Peers* const peers = options_.peers;
  if (peers == nullptr) {
    return verify_checkpoint(info);
  }
  CheckpointInfo part = info;
  part.manifest.files.clear();
  for (size_t i = static_cast<size_t>(rank()); i < info.manifest.files.size();
       i += static_cast<size_t>(peers->count())) {
    part.manifest.files.push_back(info.manifest.files[i]);
  }
  return peers->agree(verify_checkpoint(part));
}

// Returns the parts of the model that have a row for each class, matched with the classes of the checkpoint.
Result<std::vector<ClassPart>> DirectoryStore::match(const CheckpointInfo& info, const TrainState& state) {
  XRUN_ASSIGN(ClassTables stored, read_classes(info));
  stored = of_graph(std::move(stored), state.graph());
  std::ranges::transform(stored, stored.begin(),
                         [&](ClassTable& table) { return renamed(std::move(table), options_.moved_classes); });
  return match_classes(state, options_.classes, stored);
}

std::optional<std::string> DirectoryStore::older_than(int64_t step) const {
  auto steps = steps_in(options_.directory);
  std::erase_if(steps, [&](int64_t other) { return other >= step; });
  return steps.empty() ? std::nullopt : std::optional(options_.directory + "/" + step_name(steps.back()));
}

}  // namespace xrun::runtime
