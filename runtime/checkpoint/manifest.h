// The manifest of a checkpoint: the identity and the progress of the run, and the digest of every file. A step
// directory without a valid manifest is not a checkpoint.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/train/checkpoint_store.h"

namespace xrun::runtime {

constexpr Bytes kMostManifestBytes = 64 * kMiB;  // half a million files

struct ManifestFile {
  std::string name;
  Bytes bytes = 0;
  std::string xxh3;  // XXH3-128, 32 hex digits
};

// Class rows of a head that are kept in a file next to the step directories (rows_file.h).
struct ManifestRows {
  std::string head;  // names the file: "rows.id"
  std::string rows;  // id of the file
  std::string log;   // id of its undo log, which restores the rows of this checkpoint
};

// Settings that a run had until it was extended.
struct HistoryEntry {
  int64_t until = 0;                 // steps done at the end of this period
  std::string math_digest;           // digest during this period
  std::vector<std::string> changes;  // "`train.epochs` was 2 epochs, then 4 epochs"
};

// The classes of an input (runtime/train/class_tables.h).
struct ManifestClasses {
  std::string input;  // empty before format 5: the label of the first head
  int64_t named = 0;  // number of classes with names; 0: they are numbers
  std::string xxh3;   // digest of the file with their names (class_names.h); empty: no file
};

struct Manifest {
  // 1: class names are in the manifest; since 3: text of the model, history and records; 4: `rows` has entries; 5:
  // classes by input.
  int64_t format = 5;
  int64_t step = 0;     // steps done
  double epoch = 0;     // 0 if the length of an epoch is unknown
  int64_t samples = 0;  // position in the concatenated permutations: where the next batch begins
  uint64_t seed = 0;    // key of all random numbers
  std::string math_digest;
  std::string version;  // version of xrun
  std::string isa;
  std::map<std::string, std::string> libraries;
  bool deterministic = false;
  std::vector<ManifestClasses> classes;  // formats 1 to 4: always one
  std::vector<std::string> class_names;  // format 1 only
  std::vector<HistoryEntry> history;     // oldest first
  std::vector<Record> records;           // records of evaluations
  std::vector<ManifestFile> files;
  std::vector<ManifestRows> rows;
};

// XG0710: the message is `name`, a part of a checkpoint, then `why`: "is truncated", "holds ...".
Error damaged(std::string_view name, std::string_view why);

// The text of a manifest, identical for equal values. Its last entry is the digest of the text with that digest empty.
std::string print_manifest(const Manifest& manifest);

// Parses such a text; `name` is for messages. Rejects every text that print_manifest would not write byte for byte, so
// a changed bit is always found. Errors: XG0710, and XG0714 for the format of a later version.
Result<Manifest> parse_manifest(std::string_view text, std::string_view name);

}  // namespace xrun::runtime
