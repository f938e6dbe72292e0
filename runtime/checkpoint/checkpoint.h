// Checkpoints on disk (docs/reference/formats.md, "Checkpoints"): a directory per step, which is complete or absent.
//
//   DIR/step-000400/manifest.json                      digests of the files below, and of itself
//   DIR/step-000400/model.json                         text of the model, its imports and its flags
//   DIR/step-000400/trunk.safetensors                  weights and running statistics
//   DIR/step-000400/trunk.optim.safetensors            optimizer states
//   DIR/step-000400/head.NAME.r0000000000.safetensors  a row range of a head: weight and optimizer states
//   DIR/step-000400/trunk.r0000000001.safetensors      with several ranks: tensors that rank 1 has first; also .optim
//   DIR/rows.NAME                                      class rows of a head that are kept in a file (run_rows.h)
//   DIR/latest                                         name of the newest step
//   DIR/best                                           names and values of the best steps, if `best` is set
//   DIR/classes-XXH3.json                              names of the classes, for all steps that refer to it
//
// A head file holds a row range of the whole tensor, not a device's shard, so any number of shards can read it. A step
// is written into a directory of another name, synced and renamed, so that a crash leaves older steps unchanged. Files
// are verified before tensors are read from them.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/train/class_tables.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

struct CheckpointInfo {
  std::string path;  // the step directory
  Manifest manifest;
  Bytes bytes = 0;
};

// Whether `path` is a step directory, a directory of them, or its `latest` or `best`. Also true if that cannot be read;
// open_checkpoint then reports why.
bool is_checkpoint(const std::string& path);

// Finds and reads the manifest; `path` as in is_checkpoint. Errors: XG0713 nothing there, XG0710, XG0714.
Result<CheckpointInfo> open_checkpoint(const std::string& path);

// Parses the text of a manifest, for the step directory `path`. Errors: XG0710, XG0714.
Result<CheckpointInfo> parse_checkpoint(const std::string& path, const std::string& text);

// The classes of the run, by input; formats 1 to 4 have one table whose input is empty. Errors: XG0710 a file of names,
// which lies next to the step directories and is shared by them, is missing or damaged; XG0713 it cannot be read.
Result<ClassTables> read_classes(const CheckpointInfo& info);

// Compares a file with its size and digest. Errors: XG0710; XG0713 it cannot be read.
Status verify_file(const std::string& path, const ManifestFile& expected);

// Compares every file of the manifest with its digest. Errors: XG0710 names the file; XG0713 it cannot be read.
Status verify_checkpoint(const CheckpointInfo& info);

// Fills `state` with weights and running statistics, and with optimizer states if `optimizer` is set, for any number of
// shards. Changes nothing if the files do not verify. The session must prepare weights again afterwards. Class rows
// that are kept in a file are mapped, and locked while the state lives. Takes an open checkpoint, not a path, since
// `latest` changes while a run saves. Errors: those of verify_checkpoint and restore_rows; XG0702 a tensor is missing
// or has another shape; XG0719. `moved`: names that tensors of the checkpoint may have.
Status load_checkpoint(const CheckpointInfo& info, TrainState& state, bool optimizer = false,
                       std::span<const Moved> moved = {});

}  // namespace xrun::runtime
