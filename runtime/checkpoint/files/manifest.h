// The manifest of a checkpoint: the identity and the progress of the run, and the digest of every file. A step
// directory without a valid manifest is not a checkpoint.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/train/state/checkpoint_store.h"
#include "runtime/train/state/input_scales.h"
#include "runtime/train/state/loss_scale.h"

namespace xrun::runtime {

constexpr Bytes kMostManifestBytes = 64 * kMiB;  // enough for half a million files

struct ManifestFile {
  std::string name;
  Bytes bytes = 0;
  std::string xxh3;  // digest of the file: XXH3-128, 32 hex digits
};

// Class rows of a head that are kept in a file next to the step directories (class_row_file.h).
struct ManifestRows {
  std::string head;  // the rows file is named after it: "rows.id"
  std::string rows;  // id of the rows file
  std::string log;   // id of the undo log that restores the rows of this checkpoint
};

// The settings of a run before it was extended (CheckpointOptions::extend).
struct HistoryEntry {
  int64_t until = 0;                 // number of steps done at the end of this period
  std::string math_digest;           // math digest of the run during this period
  std::vector<std::string> changes;  // "`train.epochs` was 2 epochs, then 4 epochs"
};

// The classes of an input (runtime/train/state/class_tables.h).
struct ManifestClasses {
  std::string input;  // empty before format 5: the label of the first head
  int64_t named = 0;  // number of classes with names; 0: classes are numbers
  std::string xxh3;   // digest of the file with their names (class_names.h); empty: no file
};

struct Manifest {
  // The version of the format. 1: class names are in the manifest; 3: the model's text, history and records are added;
  // 4: the list `rows` is added; 5: classes are stored by input; 6: the list `scales` is
  // added; 7: the scale of the loss is added. A checkpoint is written in the lowest format from 5 on that has what it
  // needs, so that earlier versions can read it.
  int64_t format = 5;
  int64_t step = 0;     // number of steps done
  double epoch = 0;     // 0 if the length of an epoch is unknown
  int64_t samples = 0;  // samples in these steps: the next batch begins there in the sequence of all samples
  uint64_t seed = 0;    // key of all random numbers
  std::string math_digest;
  std::string version;  // version of xrun
  std::string isa;
  std::map<std::string, std::string> libraries;
  bool deterministic = false;
  std::vector<ManifestClasses> classes;  // in formats 1 to 4 always one entry
  std::vector<std::string> class_names;  // format 1 only
  InputScales scales;                    // since format 6: means and deviations of standardized inputs
  std::optional<LossScale> loss_scale;   // since format 7: the scale of the loss in the next step
  std::vector<HistoryEntry> history;     // earlier settings of the run, oldest first
  std::vector<Record> records;           // the best evaluations by each metric
  std::vector<ManifestFile> files;
  std::vector<ManifestRows> rows;
};

// Makes the error XG0710 for a damaged part of a checkpoint: its message is `name`, followed by `why`, such as "is
// truncated".
Error damaged(std::string_view name, std::string_view why);

// Prints a manifest. Equal values give the same text. The last entry is the digest of the text, computed while that
// entry is empty.
std::string print_manifest(const Manifest& manifest);

// Parses the text of a manifest; `name` is for messages. Rejects every text that differs in a byte from what
// print_manifest would write, so a changed bit is always found. Errors: XG0710, and XG0714 for the format of a later
// version.
Result<Manifest> parse_manifest(std::string_view text, std::string_view name);

}  // namespace xrun::runtime
