// The rows files of a run: DIR/rows.HEAD for each head whose class rows are kept in a file, next to the step
// directories of its checkpoints (docs/reference/formats.md, "Rows files and undo logs").
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/checkpoint/class_rows/class_row_file.h"
#include "runtime/checkpoint/files/manifest.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// The path of the file with the rows of a checkpoint.
std::string rows_path(const CheckpointInfo& info, const ManifestRows& rows);

// Restores the rows of a checkpoint; the file is locked while the result lives. `layout`: the required layout; null:
// any layout. Errors: those of ClassRowFile::restore; XG0710 also if the file now belongs to a later checkpoint.
Result<std::shared_ptr<ClassRowFile>> restore_rows(const CheckpointInfo& info, const ManifestRows& rows,
                                                   const RowsLayout* layout, const ClassRowFileOptions& options = {});

// Maps the files of a checkpoint over the rows of a state that only reads them. Errors: those of restore_rows, XG0702.
Status map_rows_of(const CheckpointInfo& info, TrainState& state);

// The rows files of a run that trains. Threads: one.
class ClassRowFiles {
 public:
  ClassRowFiles(std::string directory, Io& io) : directory_(std::move(directory)), options_{.io = &io} {}

  // Creates a file of zeros for each head of the state that has no file yet, and maps it. Errors: XG0711 there is no
  // space, or the rows of a checkpoint after step `after` would be overwritten; XG0712.
  Status make(TrainState& state, int64_t after = -1);
  // Restores and maps the files of a checkpoint in this directory, and creates files for heads whose rows were in
  // memory when the checkpoint was written. Errors: those of restore_rows and make; XG0713 the checkpoint is in another
  // directory.
  Status resume(const CheckpointInfo& info, TrainState& state);

  // The steps of a save that concern rows files (ClassRowFile), for all files.
  Result<std::vector<ManifestRows>> prepare(int64_t step);
  void switch_to_prepared();
  Status give_up();
  // Closes all files (ClassRowFile::close). Errors: XG0711.
  Status close();

 private:
  std::string directory_;
  ClassRowFileOptions options_;
  std::map<std::string, std::shared_ptr<ClassRowFile>> files_;  // key: head
};

}  // namespace xrun::runtime
