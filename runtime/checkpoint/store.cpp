#include "runtime/checkpoint/store.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <system_error>

#include "graph/base/check.h"
#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/background/background_save.h"
#include "runtime/checkpoint/copies/restore.h"
#include "runtime/checkpoint/copies/retention.h"
#include "runtime/checkpoint/files/class_names.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/lock.h"
#include "runtime/checkpoint/files/shared_directory.h"
#include "runtime/checkpoint/put_aside.h"
#include "runtime/checkpoint/resume_checks.h"
#include "runtime/checkpoint/step_copies.h"
#include "runtime/checkpoint/tensors/class_row_files.h"
#include "runtime/checkpoint/tensors/state_files.h"
#include "runtime/checkpoint/tensors/tensor_files.h"
#include "runtime/device/background_work.h"

namespace xrun::runtime {
namespace {

class Store final : public CheckpointStore {
 public:
  Store(CheckpointOptions options, std::optional<DirectoryLock> lock)
      : options_(std::move(options)),
        lock_(std::move(lock)),
        rows_(options_.directory, *options_.io),
        memory_(options_.writers, options_.staging) {}

  // Opens the directories of second copies. All ranks call it together, before other functions.
  Status open_copies() {
    XRUN_ASSIGN(copies_, StepCopies::open(options_));
    return {};
  }

  Result<SavedCheckpoint> save(const TrainState& state, int64_t step, int64_t samples) override {
    XRUN_ASSIGN(Pending pending, begin(state, step, samples));
    XRUN_ASSIGN(pending.files, gather_files(options_.peers, write_state(state, pending.path, options_.range_bytes,
                                                                        *options_.io, rank())));
    XRUN_ASSIGN(const std::string bytes, lead([&] { return complete(pending); }));
    copy(pending);
    return SavedCheckpoint{.path = path_of(step), .bytes = std::stoll(bytes)};
  }

  Status begin_save(const TrainState& state, int64_t step, int64_t samples) override {
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

  ChangeGuard* guard() override {
    return under_way_ != nullptr && under_way_->files->reads() ? &*under_way_->files : nullptr;
  }

  void read_rest() override {
    if (under_way_ != nullptr) {
      under_way_->files->read_rest();
    }
  }

  Result<std::optional<SavedCheckpoint>> saved(bool wait) override {
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

  Result<std::vector<CheckpointCopy>> copies(bool wait) override {
    if (copies_ == nullptr) {
      return std::vector<CheckpointCopy>();
    }
    XRUN_ASSIGN(auto ended, copies_->follow(wait));
    // The last save did not remove steps that second copies still needed. They are not needed any more, so remove them.
    if (wait && under_way_ == nullptr && saved_ && std::exchange(kept_more_, false)) {
      remove_old(options_.directory, *saved_, options_.keep, {}, *options_.io);
    }
    return ended;
  }

  Status make_rows(TrainState& state) override { return rows_.make(state); }

  Status finish() override { return rows_.close(); }

  Result<std::optional<ClassTables>> classes() override {
    XRUN_ASSIGN(const auto found, find());
    if (!found) {
      return std::optional<ClassTables>();
    }
    XRUN_ASSIGN(ClassTables tables, read_classes(found->info));
    return std::optional(std::move(tables));
  }

  void keep_classes(ClassTables classes) override {
    options_.classes = std::move(classes);
    names_of_.clear();
  }

  Result<StartedParts> start_from(const std::string& path, const std::vector<std::string>& skip,
                                  TrainState& state) override {
    XRUN_ASSIGN(const CheckpointInfo info, open_checkpoint(path));
    XRUN_TRY(verify(info));
    XRUN_ASSIGN(const auto parts, match(info, state));
    return start_state(info, state, skip, parts, {options_.seed, options_.moved});
  }

  Status remember(const std::vector<Record>& records) override {
    records_ = records;
    best_is_old_ = under_way_ != nullptr;  // wait for the save under way, whose step may be among the best
    return best_is_old_ ? Status() : name_best();
  }

  Result<std::optional<Resumed>> resume(TrainState& state) override {
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

 private:
  int rank() const { return options_.peers == nullptr ? 0 : options_.peers->rank(); }

  // A checkpoint whose directory still has an unfinished name.
  struct Pending {
    int64_t step = 0;
    int64_t samples = 0;
    std::string path;
    std::optional<PendingDirectory> directory;  // rank 0 only
    std::vector<Record> records;                // records at its step
    std::vector<int64_t> needed;                // steps that second copies still needed when the save began
    RankFiles files;
  };

  // A save in the background, which has two phases: every rank writes its files, then rank 0 completes the checkpoint.
  struct UnderWay {
    explicit UnderWay(Pending begun) : pending(std::move(begun)) {}
    Pending pending;
    std::optional<BackgroundSave> files;
    bool is_written = false;
    Result<std::string> bytes = std::string();  // size of the checkpoint
    std::optional<BackgroundWork> completion;   // rank 0 only; last member, because it reads the others
  };

  std::string path_of(int64_t step) const { return options_.directory + "/" + step_name(step); }

  static Error no_thread() {
    return {ErrorKind::kWorld, "XG0803", "the system lets no thread start that saves in the background",
            "raise its limit (`ulimit -u`, `ulimit -v`, pids.max of the control group)"};
  }

  Status agree(Status mine) {
    return options_.peers == nullptr ? std::move(mine) : options_.peers->agree(std::move(mine));
  }

  Result<Pending> begin(const TrainState& state, int64_t step, int64_t samples) {
    Pending pending{.step = step, .samples = samples, .records = records_};
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
  Result<std::string> complete(Pending& pending) {
    Bytes bytes = 0;
    XRUN_TRY(write_manifest(pending, bytes));
    return std::to_string(bytes);
  }

  // Continues a save in the background, and returns the checkpoint once it is durable. All ranks change from writing to
  // completion, and from completion to the end, in the same call.
  Result<std::optional<SavedCheckpoint>> go_on(UnderWay& save, bool wait) {
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
    return std::optional(SavedCheckpoint{
        .path = path_of(save.pending.step), .bytes = std::stoll(bytes), .waited = save.files->waited()});
  }

  Status begin_completion(UnderWay& save) {
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

  // The files of all ranks once they are durable on all; nullopt before.
  Result<std::optional<RankFiles>> gather_written(const BackgroundSave& save) {
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
  Status name_best() {
    std::vector<BestStep> best;
    for (const Record& record : records_) {
      if (record.keep > 0) {
        best = record.best;
      }
    }
    return rank() != 0 || best.empty() ? Status() : write_best(options_.directory, best, *options_.io);
  }

  // Calls `work` on rank 0 only, and returns its result on all ranks.
  template <typename Work>
  Result<std::string> lead(const Work& work) {
    if (options_.peers == nullptr) {
      return work();
    }
    return options_.peers->broadcast(rank() == 0 ? work() : Result<std::string>(std::string()));
  }

  // Writes the manifest, publishes the step, and removes older ones. `bytes`: size of all files.
  Status write_manifest(Pending& pending, Bytes& bytes) {
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
      static_cast<void>(rows_.give_up());  // ignore its error, since the first error is the one to report
      return done;
    }
    rows_.switch_to_prepared();
    remove_old(options_.directory, manifest, options_.keep, pending.needed, *options_.io);
    kept_more_ = !pending.needed.empty();
    saved_ = std::move(manifest);
    return {};
  }

  Status publish(PendingDirectory& pending, Manifest& manifest, Bytes& bytes) {
    XRUN_ASSIGN(manifest.rows, rows_.prepare(manifest.step));
    const std::string text = print_manifest(manifest);
    bytes += static_cast<Bytes>(text.size());
    XRUN_TRY(pending.write("manifest.json", text));
    return pending.publish();
  }

  // The checkpoint to resume from, with its manifest.
  Result<std::optional<FoundStep>> find() {
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

  CopyPlaces copy_places() const {
    return {.directory = options_.directory,
            .copies = copies_->path(),
            .reads = copies_->copies(),
            .peers = options_.peers,
            .io = options_.io};
  }

  // Called when the checkpoint is durable: second copies of it may be made.
  void copy(const Pending& saved) {
    if (copies_ != nullptr) {
      copies_->add(saved.step, saved.files);
    }
  }

  // Loads a checkpoint into `state`. `names` returns the files that were restored from second copies.
  Status load(const FoundStep& found, TrainState& state, std::vector<std::string>& names) {
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
      part.map = {.to = {}, .same_rows = true, .rows = part.map.rows};  // classes that are added come last
    }
    return read_grown_state(info, state, parts, {options_.seed, options_.moved});
  }

  // Verifies the files of a checkpoint; each rank verifies a share of them.
  Status verify(const CheckpointInfo& info) {
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

  // Writes the files of class names if they do not exist yet, and returns the entries for the manifest.
  Result<std::vector<ManifestClasses>> write_classes() {
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

  // The parts of the model whose rows are classes, matched with those of the checkpoint.
  Result<std::vector<ClassPart>> match(const CheckpointInfo& info, const TrainState& state) {
    XRUN_ASSIGN(ClassTables stored, read_classes(info));
    stored = of_graph(std::move(stored), state.graph());
    std::ranges::transform(stored, stored.begin(),
                           [&](ClassTable& table) { return renamed(std::move(table), options_.moved_classes); });
    return match_classes(state, options_.classes, stored);
  }

  std::optional<std::string> older_than(int64_t step) const {
    auto steps = steps_in(options_.directory);
    std::erase_if(steps, [&](int64_t other) { return other >= step; });
    return steps.empty() ? std::nullopt : std::optional(options_.directory + "/" + step_name(steps.back()));
  }

  CheckpointOptions options_;
  std::optional<DirectoryLock> lock_;  // held by rank 0
  ClassRowFiles rows_;
  std::unique_ptr<StepCopies> copies_;  // null: no second copies
  std::optional<Manifest> saved_;       // rank 0 only: the last one that it has saved
  bool kept_more_ = false;              // rank 0 only: more steps than `keep` exist, for second copies
  std::vector<HistoryEntry> history_;
  std::vector<Record> records_;
  std::map<std::string, std::string> names_of_;  // key: input; digests of the written class names
  SaveMemory memory_;
  bool best_is_old_ = false;  // whether to write the file `best` again after the save under way
  std::unique_ptr<UnderWay> under_way_;
};

// The store of rank 0, or of a single process, which holds the lock.
Result<std::unique_ptr<Store>> make_leading_store(const CheckpointOptions& options) {
  XRUN_TRY(make_room(options, options.directory));
  XRUN_ASSIGN(auto lock, DirectoryLock::take(options.directory, *options.io));
  const auto newest = newest_in(options.directory);
  // If the step that `latest` names is missing, it may be restored from second copies later.
  const bool may_be_copied = !options.copy.empty() && options.resume != "never";
  if (!newest.ok() && !(may_be_copied && newest.error().kind == ErrorKind::kContent)) {
    return newest.error();
  }
  if (options.resume == "never" && newest.ok() && *newest) {
    return would_write_over(options.directory, **newest);
  }
  auto store = std::make_unique<Store>(options, std::move(lock));
  if (newest.ok() && *newest) {
    // If the checkpoint cannot be read, `resume` reports the error.
    const auto info = open_checkpoint(options.directory + "/" + **newest);
    if (info.ok()) {
      XRUN_TRY(check_digest(*info, options));
    }
  }
  return store;
}

Result<std::unique_ptr<Store>> make_store(const CheckpointOptions& options) {
  if (options.peers == nullptr) {
    return make_leading_store(options);
  }
  std::unique_ptr<Store> store;
  Status made;
  if (options.peers->rank() == 0) {
    auto leading = make_leading_store(options);
    if (leading.ok()) {
      store = std::move(leading).value();
    } else {
      made = std::move(leading).error();
    }
  } else {
    store = std::make_unique<Store>(options, std::nullopt);
  }
  XRUN_TRY(options.peers->agree(std::move(made)));
  XRUN_TRY(check_same_directory(options.directory, *options.peers, *options.io));
  return store;
}

}  // namespace

Result<std::unique_ptr<CheckpointStore>> make_checkpoint_store(CheckpointOptions options) {
  const bool copies = !options.copy.empty();
  XRUN_ASSIGN(std::unique_ptr<Store> store, make_store(options));
  if (copies) {
    XRUN_TRY(store->open_copies());
  }
  return std::unique_ptr<CheckpointStore>(std::move(store));
}

}  // namespace xrun::runtime
