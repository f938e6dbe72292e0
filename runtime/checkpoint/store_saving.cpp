// Saving: a save begins with a directory that has the name of an unfinished save. All ranks write their files into it,
// at once or in the background. Then rank 0 writes the manifest, publishes the step and removes older steps.
// Tests: tests/runtime/checkpoint/store_test.cpp
#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "graph/base/check.h"
#include "graph/base/xxh128.h"
#include "runtime/checkpoint/copies/retention.h"
#include "runtime/checkpoint/directory_store.h"
#include "runtime/checkpoint/files/class_names.h"
#include "runtime/checkpoint/tensors/model_text.h"
#include "runtime/checkpoint/tensors/state_files.h"

namespace xrun::runtime {

Result<SavedCheckpoint> DirectoryStore::save(const TrainState& state, int64_t step, int64_t samples) {
  XRUN_ASSIGN(Pending pending, begin(state, step, samples));
  XRUN_ASSIGN(pending.files, gather_files(options_.peers, write_state(state, pending.path, options_.range_bytes,
                                                                      *options_.io, rank())));
  XRUN_ASSIGN(const std::string bytes, lead([&] { return complete(pending); }));
  copy(pending);
  return SavedCheckpoint{.path = path_of(step), .bytes = std::stoll(bytes)};
}

Status DirectoryStore::begin_save(const TrainState& state, int64_t step, int64_t samples) {
  XRUN_CHECK(under_way_ == nullptr, "a save begins before the one before it has ended");
  XRUN_ASSIGN(Pending pending, begin(state, step, samples));
  auto save = std::make_unique<UnderWay>(std::move(pending));
  const auto start = [&]() -> Status {
    try {
      save->files.emplace(state, options_.range_bytes, rank(), save->pending.path, *options_.io, memory_);
      return {};
    } catch (const std::system_error&) {
      return no_thread();
    }
  };
  XRUN_TRY(agree(start()));
  under_way_ = std::move(save);
  return {};
}

Result<std::optional<SavedCheckpoint>> DirectoryStore::saved(bool wait) {
  if (under_way_ == nullptr) {
    return std::optional<SavedCheckpoint>();
  }
  auto ended = go_on(*under_way_, wait);
  if (ended.ok() && *ended) {
    copy(under_way_->pending);
  }
  if (!ended.ok() || *ended) {
    under_way_ = nullptr;
  }
  if (ended.ok() && *ended && std::exchange(best_is_old_, false)) {
    XRUN_TRY(agree(name_best()));
  }
  return ended;
}

Result<std::vector<CheckpointCopy>> DirectoryStore::copies(bool wait) {
  if (copies_ == nullptr) {
    return std::vector<CheckpointCopy>();
  }
  XRUN_ASSIGN(auto ended, copies_->follow(wait));
  // The last save kept steps that second copies still needed. They are not needed any more, so they are removed now.
  if (wait && under_way_ == nullptr && saved_ && std::exchange(kept_more_, false)) {
    remove_old(options_.directory, *saved_, options_.keep, {}, *options_.io);
  }
  return ended;
}

Status DirectoryStore::remember(const std::vector<Record>& records) {
  records_ = records;
  best_is_old_ = under_way_ != nullptr;  // wait for the save under way: its step may be one of the best
  return best_is_old_ ? Status() : name_best();
}

Error DirectoryStore::no_thread() {
  return {ErrorKind::kWorld, "XG0803", "the system lets no thread start that saves in the background",
          "raise its limit (`ulimit -u`, `ulimit -v`, pids.max of the control group)"};
}

Result<DirectoryStore::Pending> DirectoryStore::begin(const TrainState& state, int64_t step, int64_t samples) {
  Pending pending{.step = step,
                  .samples = samples,
                  .records = records_,
                  .loss_scale = saved_scale(state.loss_scale_spec(), state.loss_scale())};
  if (copies_ != nullptr) {
    pending.needed = copies_->needed();
  }
  const auto make_directory = [&]() -> Result<std::string> {
    XRUN_TRY(check_space(state, options_.directory));
    XRUN_ASSIGN(auto made, PendingDirectory::make(options_.directory, step_name(step), *options_.io));
    return pending.directory.emplace(std::move(made)).path();
  };
  XRUN_ASSIGN(pending.path, lead(make_directory));
  return pending;
}

// Writes the manifest and publishes the step. Returns the size of the checkpoint, as text.
Result<std::string> DirectoryStore::complete(Pending& pending) {
  Bytes bytes = 0;
  XRUN_TRY(write_manifest(pending, bytes));
  return std::to_string(bytes);
}

// Continues a save in the background, and returns the checkpoint once it is durable. All ranks begin the completion in
// the same call, and end it in the same call.
Result<std::optional<SavedCheckpoint>> DirectoryStore::go_on(UnderWay& save, bool wait) {
  constexpr auto kNotYet = std::nullopt;
  if (!save.is_written) {
    if (wait) {
      save.files->wait();
    }
    XRUN_ASSIGN(auto files, gather_written(*save.files));
    if (!files) {
      return std::optional<SavedCheckpoint>(kNotYet);
    }
    save.pending.files = std::move(*files);
    save.is_written = true;
    XRUN_TRY(agree(begin_completion(save)));
  }
  const auto outcome = [&]() -> Result<std::string> {
    if (wait) {
      save.completion->wait();
    }
    return save.completion->done() ? save.bytes : Result<std::string>(std::string());
  };
  XRUN_ASSIGN(const std::string bytes, lead(outcome));
  if (bytes.empty()) {
    return std::optional<SavedCheckpoint>(kNotYet);
  }
  return std::optional(
      SavedCheckpoint{.path = path_of(save.pending.step), .bytes = std::stoll(bytes), .waited = save.files->waited()});
}

Status DirectoryStore::begin_completion(UnderWay& save) {
  if (rank() != 0) {
    return {};
  }
  try {
    save.completion.emplace(1, [this, &save](ops::Workers& /*workers*/) { save.bytes = complete(save.pending); });
    return {};
  } catch (const std::system_error&) {
    return no_thread();
  }
}

// Returns the files of all ranks once all of them are durable; nullopt until then.
Result<std::optional<RankFiles>> DirectoryStore::gather_written(const BackgroundSave& save) {
  using Files = std::optional<RankFiles>;
  const bool mine = save.done();
  if (options_.peers == nullptr) {
    if (!mine) {
      return Files();
    }
    XRUN_ASSIGN(auto files, save.files());
    return Files(RankFiles{std::move(files)});
  }
  // An error of a rank is reported to all ranks at once; the files are exchanged when all ranks have written theirs.
  Status failed = mine ? [&] {
    auto files = save.files();
    return files.ok() ? Status() : Status(std::move(files).error());
  }() : Status();
  const auto said = [&]() -> Result<std::string> {
    XRUN_TRY(std::move(failed));
    return std::string(mine ? "written" : "");
  };
  XRUN_ASSIGN(const auto texts, options_.peers->gather(said()));
  if (std::ranges::any_of(texts, &std::string::empty)) {
    return Files();
  }
  XRUN_ASSIGN(auto files, gather_files(options_.peers, save.files()));
  return Files(std::move(files));
}

// Writes the best steps to the file `best`.
Status DirectoryStore::name_best() {
  std::vector<BestStep> best;
  for (const Record& record : records_) {
    if (record.keep > 0) {
      best = record.best;
    }
  }
  return rank() != 0 || best.empty() ? Status() : write_best(options_.directory, best, *options_.io);
}

// Writes the manifest, publishes the step, and removes older steps. `bytes`: size of all files.
Status DirectoryStore::write_manifest(Pending& pending, Bytes& bytes) {
  PendingDirectory& directory = *pending.directory;
  const int64_t step = pending.step;
  Manifest manifest{.step = step,
                    .samples = pending.samples,
                    .seed = options_.seed,
                    .math_digest = options_.math_digest,
                    .version = options_.version,
                    .isa = options_.isa,
                    .libraries = options_.libraries,
                    .deterministic = options_.deterministic};
  if (options_.epoch_samples > 0) {
    manifest.epoch = static_cast<double>(pending.samples) / static_cast<double>(options_.epoch_samples);
  }
  manifest.history = history_;
  manifest.records = pending.records;
  XRUN_ASSIGN(manifest.classes, write_classes());
  manifest.scales = options_.scales;
  if (pending.loss_scale != LossScale()) {
    manifest.loss_scale = pending.loss_scale;
  }
  manifest.format = manifest.loss_scale ? 7 : manifest.scales.empty() ? 5 : 6;
  for (const auto& files : pending.files) {
    manifest.files.insert(manifest.files.end(), files.begin(), files.end());
  }
  const std::string model = print_model_text(options_.model);
  XRUN_TRY(directory.write(std::string(kModelFile), model));
  manifest.files.push_back(
      {std::string(kModelFile), static_cast<Bytes>(model.size()), xxh128(std::as_bytes(std::span(model)))});
  for (const ManifestFile& file : manifest.files) {
    bytes += file.bytes;
  }
  if (Status done = publish(directory, manifest, bytes); !done.ok()) {
    static_cast<void>(rows_.give_up());  // its error is ignored, since the first error is the one to report
    return done;
  }
  rows_.switch_to_prepared();
  remove_old(options_.directory, manifest, options_.keep, pending.needed, *options_.io);
  kept_more_ = !pending.needed.empty();
  saved_ = std::move(manifest);
  return {};
}

Status DirectoryStore::publish(PendingDirectory& pending, Manifest& manifest, Bytes& bytes) {
  XRUN_ASSIGN(manifest.rows, rows_.prepare(manifest.step));
  const std::string text = print_manifest(manifest);
  bytes += static_cast<Bytes>(text.size());
  XRUN_TRY(pending.write("manifest.json", text));
  return pending.publish();
}

// Called when the checkpoint is durable: second copies of it may be made.
void DirectoryStore::copy(const Pending& saved) {
  if (copies_ != nullptr) {
    copies_->add(saved.step, saved.files);
  }
}

// Writes the files of class names if they do not exist yet, and returns the entries for the manifest.
Result<std::vector<ManifestClasses>> DirectoryStore::write_classes() {
  const std::set<std::string> there = class_names_in(options_.directory);
  std::vector<ManifestClasses> all;
  for (const ClassTable& table : options_.classes) {
    std::string& digest = names_of_[table.input];
    if (table.named && !there.contains(digest)) {
      XRUN_ASSIGN(digest, write_class_names(options_.directory, table.names, *options_.io));
    }
    all.push_back({.input = table.input, .named = std::ssize(table.names), .xxh3 = table.named ? digest : ""});
  }
  return all;
}

}  // namespace xrun::runtime
