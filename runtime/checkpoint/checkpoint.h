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

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

struct CheckpointInfo {
  std::string path;  // the step directory
  Manifest manifest;
  Bytes bytes = 0;
};

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

}  // namespace xrun::runtime
