// The store of checkpoints in one directory (runtime/checkpoint/store.h). store.cpp creates it, store_saving.cpp saves
// and store_resuming.cpp resumes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/background/background_save.h"
#include "runtime/checkpoint/background/save_memory.h"
#include "runtime/checkpoint/copies/restore.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/lock.h"
#include "runtime/checkpoint/files/manifest.h"
#include "runtime/checkpoint/step_copies.h"
#include "runtime/checkpoint/store.h"
#include "runtime/checkpoint/tensors/class_match.h"
#include "runtime/checkpoint/tensors/class_row_files.h"
#include "runtime/device/background_work.h"

namespace xrun::runtime {

class DirectoryStore final : public CheckpointStore {
 public:
  DirectoryStore(CheckpointOptions options, std::optional<DirectoryLock> lock)
      : options_(std::move(options)),
        lock_(std::move(lock)),
        rows_(options_.directory, *options_.io),
        memory_(options_.writers, options_.staging) {}

  // Opens the directories of second copies. All ranks call it together, before other functions.
  Status open_copies();

  Result<SavedCheckpoint> save(const TrainState& state, int64_t step, int64_t samples) override;
  Status begin_save(const TrainState& state, int64_t step, int64_t samples) override;

  ChangeGuard* guard() override {
    return under_way_ != nullptr && under_way_->files->reads() ? &*under_way_->files : nullptr;
  }

  void read_rest() override {
    if (under_way_ != nullptr) {
      under_way_->files->read_rest();
    }
  }

  Result<std::optional<SavedCheckpoint>> saved(bool wait) override;
  Result<std::vector<CheckpointCopy>> copies(bool wait) override;

  Status make_rows(TrainState& state) override { return rows_.make(state); }
  Status finish() override { return rows_.close(); }
  Result<std::optional<ClassTables>> classes() override;

  void keep_classes(ClassTables classes) override {
    options_.classes = std::move(classes);
    names_of_.clear();
  }

  Result<InputScales> scales() override;
  void keep_scales(InputScales scales) override { options_.scales = std::move(scales); }

  Result<StartedParts> start_from(const std::string& path, const std::vector<std::string>& skip,
                                  TrainState& state) override;
  Status remember(const std::vector<Record>& records) override;
  Result<std::optional<Resumed>> resume(TrainState& state) override;

 private:
  int rank() const { return options_.peers == nullptr ? 0 : options_.peers->rank(); }

  // A checkpoint whose directory still has the name of an unfinished save.
  struct Pending {
    int64_t step = 0;
    int64_t samples = 0;
    std::string path;
    std::optional<PendingDirectory> directory;  // directory that is being written; rank 0 only
    std::vector<Record> records;                // the best steps by each metric, as known when this save began
    LossScale loss_scale;                       // LossScale() if the run does not scale its loss
    std::vector<int64_t> needed;                // steps that second copies still needed when the save began
    RankFiles files;
  };

  // A save in the background, which has two phases: every rank writes its files, then rank 0 completes the checkpoint.
  struct UnderWay {
    explicit UnderWay(Pending begun) : pending(std::move(begun)) {}
    Pending pending;
    std::optional<BackgroundSave> files;
    bool is_written = false;
    Result<std::string> bytes = std::string();  // size of the checkpoint, as text
    std::optional<BackgroundWork> completion;   // rank 0 only; last member, because it reads the others
  };

  std::string path_of(int64_t step) const { return options_.directory + "/" + step_name(step); }

  Status agree(Status mine) {
    return options_.peers == nullptr ? std::move(mine) : options_.peers->agree(std::move(mine));
  }

  // Saving.
  static Error no_thread();
  Result<Pending> begin(const TrainState& state, int64_t step, int64_t samples);
  Result<std::string> complete(Pending& pending);
  Result<std::optional<SavedCheckpoint>> go_on(UnderWay& save, bool wait);
  Status begin_completion(UnderWay& save);
  Result<std::optional<RankFiles>> gather_written(const BackgroundSave& save);
  Status write_manifest(Pending& pending, Bytes& bytes);
  Status publish(PendingDirectory& pending, Manifest& manifest, Bytes& bytes);
  Result<std::vector<ManifestClasses>> write_classes();
  void copy(const Pending& saved);
  Status name_best();

  // Resuming.
  Result<std::optional<FoundStep>> find();
  CopyPlaces copy_places() const;
  Status load(const FoundStep& found, TrainState& state, std::vector<std::string>& names);
  Status verify(const CheckpointInfo& info);
  Result<std::vector<ClassPart>> match(const CheckpointInfo& info, const TrainState& state);
  std::optional<std::string> older_than(int64_t step) const;

  // Calls `work` on rank 0 only, and returns its result on all ranks.
  template <typename Work>
  Result<std::string> lead(const Work& work) {
    if (options_.peers == nullptr) {
      return work();
    }
    return options_.peers->broadcast(rank() == 0 ? work() : Result<std::string>(std::string()));
  }

  CheckpointOptions options_;
  std::optional<DirectoryLock> lock_;  // held by rank 0
  ClassRowFiles rows_;
  std::unique_ptr<StepCopies> copies_;  // null: no second copies
  std::optional<Manifest> saved_;       // rank 0 only: manifest of the last checkpoint that was saved
  bool kept_more_ = false;              // rank 0 only: more steps than `keep` exist, for second copies
  std::vector<HistoryEntry> history_;
  std::vector<Record> records_;
  std::map<std::string, std::string> names_of_;  // key: input; value: digest of the class names that were written
  SaveMemory memory_;
  bool best_is_old_ = false;  // whether to write the file `best` again after the save under way
  std::unique_ptr<UnderWay> under_way_;
};

}  // namespace xrun::runtime
