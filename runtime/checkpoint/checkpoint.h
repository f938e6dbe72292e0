// Checkpoints on disk (docs/formats.md, "Checkpoints"): a directory a step, complete or not there at all.
//
//   DIR/step-000400/manifest.json                      digests of the files below, and of itself
//   DIR/step-000400/model.json                         text of the model, its imports and its flags
//   DIR/step-000400/trunk.safetensors                  weights and running statistics
//   DIR/step-000400/trunk.optim.safetensors            optimizer states
//   DIR/step-000400/head.NAME.r0000000000.safetensors  a row range of a head: weight and optimizer states
//   DIR/step-000400/trunk.r0000000001.safetensors      of several ranks: what rank 1 is the first to have; also .optim
//   DIR/rows.NAME                                      class rows of a head that lie in a file (run_rows.h)
//   DIR/latest                                         name of the newest
//   DIR/best                                           names and values of the best, where `best` is set
//   DIR/classes-XXH3.json                              names of the classes, for all steps that refer to it
//
// A head file holds rows of a logical tensor, not a device's shard: any number of shards reads them. Everything is
// written into a directory of another name, made durable, and renamed; a crash leaves the older ones as they were.
// Files are verified before anything is taken from them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/io.h"
#include "graph/base/result.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/model_text.h"
#include "runtime/comm/peers.h"
#include "runtime/train/checkpoint_store.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

struct CheckpointInfo {
  std::string path;  // the step directory
  Manifest manifest;
  Bytes bytes = 0;
};

// What the model, data and training of a checkpoint have otherwise than the run.
struct RunDifference {
  std::vector<std::string> lines;  // "`train.epochs` was 2 epochs, and is 4 epochs now"
  bool length_and_rate = false;    // these alone
};

struct CheckpointOptions {
  std::string directory;        // DIR; made when it is not there
  int64_t keep = 3;             // older ones are removed after a new one is durable
  std::string resume = "auto";  // `auto`: the newest; `never`; else a checkpoint's path
  std::string math_digest;      // of the run: only its own checkpoints are resumed from
  // Of a checkpoint with another digest; empty: nothing is known.
  std::function<RunDifference(const CheckpointInfo&)> compare;
  bool extend = false;  // a checkpoint is gone on from if the run has another length and rate
  std::string isa;
  bool deterministic = false;
  uint64_t seed = 0;
  std::vector<std::string> class_names;
  std::string version;
  int64_t epoch_samples = 0;  // 0: not known
  int64_t batch = 0;          // samples of a step; 0: not known
  std::map<std::string, std::string> libraries;
  ModelText model;                // kept in every checkpoint
  Bytes range_bytes = 64 * kMiB;  // of a head file
  Io* io = &system_io();          // by which it saves; outlives the store
  // Of several ranks, which make all calls of their stores together: what they tell one another by; outlives the store.
  // Each writes what it has; rank 0 has the right to write, and writes the manifest. Null: one process.
  Peers* peers = nullptr;
};

// The directory belongs to one run at a time. Errors: XG0711 it cannot be written, or not all ranks see the same one;
// XG0712 another run has it; XG0701 it holds checkpoints of another model, data or training.
// Errors of save: XG0711 (kWorld; nothing is left behind). Of resume: those of load_checkpoint, and XG0701;
// of start_from: those of open_checkpoint and load_checkpoint.
Result<std::unique_ptr<CheckpointStore>> make_checkpoint_store(CheckpointOptions options);

// Whether `path` is a step directory, a directory of them, or its `latest` or `best`.
bool is_checkpoint(const std::string& path);

// Finds and reads the manifest; `path` as in is_checkpoint. Errors: XG0713 nothing there, XG0710, XG0714.
Result<CheckpointInfo> open_checkpoint(const std::string& path);

// By class; empty where the data of the run named none. Errors: XG0710 their file, which lies beside the step directory
// for all steps of the run, is missing or damaged.
Result<std::vector<std::string>> read_class_names(const CheckpointInfo& info);

// Compares every file with its digest. Errors: XG0710 names the file.
Status verify_checkpoint(const CheckpointInfo& info);

// Fills `state` with weights and running statistics, and with optimizer states where `optimizer` asks for them; any
// number of shards, whatever it was saved with. Verifies first; nothing is changed when it fails. After it, the session
// prepares weights again. Class rows that lie in a file are mapped, and locked while the state lives. It takes a
// checkpoint that was opened, not a path: what `latest` names changes while a run saves. Errors: those of verify;
// XG0702 a tensor is missing or has another shape.
Status load_checkpoint(const CheckpointInfo& info, TrainState& state, bool optimizer = false);

// For `xrun show`: what the manifest and the headers say.
Result<std::string> describe_checkpoint(const std::string& path, bool json);

}  // namespace xrun::runtime
