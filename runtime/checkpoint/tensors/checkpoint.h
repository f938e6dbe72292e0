// Checkpoints on disk (docs/reference/formats.md, "Checkpoints"): a directory per step, which is complete or absent.
//
//   DIR/step-000400/manifest.json                      digests of the files below, and of itself
//   DIR/step-000400/model.json                         text of the model, its imports and its flags
//   DIR/step-000400/trunk.safetensors                  weights and running statistics
//   DIR/step-000400/trunk.optim.safetensors            optimizer states
//   DIR/step-000400/head.NAME.r0000000000.safetensors  a row range of a head: weight and optimizer states
//   DIR/step-000400/trunk.r0000000001.safetensors      with several ranks: tensors that rank 1 has first; also .optim
//   DIR/rows.NAME                                      class rows of a head that are kept in a file (class_row_files.h)
//   DIR/latest                                         name of the newest step
//   DIR/best                                           names and values of the best steps, if `best` is set
//   DIR/classes-XXH3.json                              names of the classes, for all steps that refer to it
//
// A head file holds a row range of the whole tensor, not the shard of a device, so the checkpoint can be read with any
// number of shards. A step is written into a directory with a temporary name, synced and renamed, so that a crash
// leaves older steps unchanged. Files are verified before tensors are read from them.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/files/manifest.h"
#include "runtime/train/state/class_tables.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

struct CheckpointInfo {
  std::string path;  // path of the step directory
  Manifest manifest;
  Bytes bytes = 0;
};

// Whether `path` is a step directory, a directory that contains step directories, or its file `latest` or `best`. Also
// true if the path cannot be read; open_checkpoint then reports why.
bool is_checkpoint(const std::string& path);

// Finds and reads the manifest of a checkpoint. `path`: see is_checkpoint. Errors: XG0713 there is no checkpoint or it
// cannot be read; XG0710 the manifest is damaged; XG0714 a later version wrote it.
Result<CheckpointInfo> open_checkpoint(const std::string& path);

// Parses the text of a manifest, for the step directory `path`. Errors: XG0710, XG0714.
Result<CheckpointInfo> parse_checkpoint(const std::string& path, const std::string& text);

// Reads the classes of the run, by input; checkpoints of formats 1 to 4 have one table whose `input` is empty. Errors:
// XG0710 a file of class names, which lies next to the step directories and is shared by them, is missing or damaged;
// XG0713 it cannot be read.
Result<ClassTables> read_classes(const CheckpointInfo& info);

// Checks that a file has the expected size and digest. Errors: XG0710 it does not; XG0713 it cannot be read.
Status verify_file(const std::string& path, const ManifestFile& expected);

// Compares the digest of every file with the manifest. Errors: XG0710, with the file; XG0713 it cannot be read.
Status verify_checkpoint(const CheckpointInfo& info);

// Fills `state` with weights and running statistics, and with optimizer states if `optimizer` is set; the state may be
// divided into any number of shards. If a file does not verify, nothing is changed. Afterwards call
// Session::weights_changed. Class rows that are kept in a file are mapped, and locked while the state lives. The
// function takes an open checkpoint instead of a path, since `latest` changes while a run saves. Errors: those of
// verify_checkpoint and restore_rows; XG0702 a tensor is missing or has another shape; XG0719.
//   moved  renamings of tensors since the checkpoint
Status load_checkpoint(const CheckpointInfo& info, TrainState& state, bool optimizer = false,
                       std::span<const Moved> moved = {});

}  // namespace xrun::runtime
