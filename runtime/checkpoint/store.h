// The store that saves the checkpoints of a run, resumes from them and removes old ones.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/os/io.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/checkpoint/tensors/model_text.h"
#include "runtime/comm/peers.h"
#include "runtime/train/state/checkpoint_store.h"

namespace xrun::runtime {

// The differences between a checkpoint's model, data and training and those of the run.
struct RunDifference {
  std::vector<std::string> lines;  // such as "`train.epochs` was 2 epochs, and is 4 epochs now"
  bool extends = false;            // only length, learning rate and numbers of classes differ
};

struct CheckpointOptions {
  std::string directory;        // DIR; created if it is missing
  int64_t keep = 3;             // the number of steps to keep; older ones are removed after a new one is durable
  std::string resume = "auto";  // `auto`: the newest; `never`; else a checkpoint's path
  // With `resume` = `never`: renames `directory`, and also `copy`, if it contains an earlier run (put_aside.h). After
  // each renaming `on_aside` is called with the old and the new name.
  bool overwrite = false;
  std::function<void(const std::string& from, const std::string& to)> on_aside = nullptr;
  std::string math_digest;  // identifies the run, which resumes only from checkpoints with an equal digest
  // Finds the differences between the run and a checkpoint with another digest; empty: the differences are unknown.
  std::function<RunDifference(const CheckpointInfo&)> compare;
  // Resumes although length, rate or the numbers of classes differ from those of the checkpoint.
  bool extend = false;
  std::string isa;
  bool deterministic = false;
  uint64_t seed = 0;
  ClassTables classes;                    // classes of the run, until `keep_classes` replaces them
  InputScales scales;                     // means and deviations of the run, until `keep_scales` replaces them
  std::vector<MovedClass> moved_classes;  // classes that had other names in earlier checkpoints
  std::string version;
  int64_t epoch_samples = 0;  // samples in an epoch; 0: unknown
  int64_t batch = 0;          // largest number of samples in a step; 0: unknown
  // The number of samples in the first `steps` steps; null: batch · steps.
  std::function<int64_t(int64_t steps)> samples_after = nullptr;
  std::map<std::string, std::string> libraries;
  ModelText model;                // stored in every checkpoint
  std::vector<Moved> moved;       // tensors that had other names in earlier checkpoints
  Bytes range_bytes = 64 * kMiB;  // approximate size of a head file
  // For background saves: the number of threads that may write at once, and the size of the memory for copies of values
  // that steps change before they are written.
  int writers = 1;
  Bytes staging = 0;
  Io* io = &system_io();  // file operations of saves; outlives the store
  // `copy`: the absolute path of a directory for second copies, on a disk of each host; empty: no copies. `rank_hosts`:
  // the host of each rank, counted from 0; empty: one host.
  std::string copy = {};
  std::vector<int> rank_hosts = {};
  // For several ranks: their communication; outlives the store. All ranks call their stores together. Each rank writes
  // its own tensors; rank 0 holds the lock and writes the manifest. Null: one process.
  Peers* peers = nullptr;
};

// Creates the store and locks its directory, which belongs to one run at a time. Errors: XG0711 the directory cannot be
// written, or not all ranks see the same directory; XG0712 another run uses it; XG0701 it contains checkpoints of
// another model, data or training; XG0722 it contains a run, but this run starts anew; those of put_aside; with `copy`
// also those of StepCopies::open.
// Errors of save, begin_save and saved: XG0711 (kWorld; no partial files are left), XG0810 a number is not finite.
// Errors of begin_save also: XG0803, the system cannot start a thread. Errors of resume and start_from: those of
// open_checkpoint and load_checkpoint; resume also XG0701.
Result<std::unique_ptr<CheckpointStore>> make_checkpoint_store(CheckpointOptions options);

}  // namespace xrun::runtime
