// Restores files of a checkpoint from its second copies (`checkpoint.copy`) if they are missing or damaged in the
// directory of the run. All functions are collective.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/os/io.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/comm/peers.h"

namespace xrun::runtime {

struct CopyPlaces {
  std::string directory;   // directory of the run
  std::string copies;      // PATH of `checkpoint.copy`, a directory on each host
  bool reads = false;      // whether this rank reads the copies on its host; one rank per host does
  Peers* peers = nullptr;  // null: one process
  Io* io = &system_io();
};

// Returns the name of the step that `--resume` asks for. Nullopt: `--resume` asks for a checkpoint outside the run's
// directory. Empty: it asks for the newest step, but no step exists. The newest step is the one in the file `latest` of
// the directory, even if that step is missing there; without `latest`, it is the newest one of the directory and of the
// copies. If only copies have steps, a step that all hosts with copies have is preferred, since each host has only a
// part of a step. Errors: those of newest_in.
Result<std::optional<std::string>> step_meant(const CopyPlaces& places, const std::string& resume);

struct FoundStep {
  CheckpointInfo info;
  std::string manifest;  // text of the manifest if only copies have it; else empty
};
// Finds the step of this name. Its manifest comes from the run's directory, or from a copy if the manifest there is
// missing or damaged. Errors: those of open_checkpoint, with a note that copies were tried.
Result<FoundStep> find_step(const CopyPlaces& places, const std::string& name);

// Verifies all files of the step, and restores missing or damaged ones from copies, durably and the manifest last.
// Returns the names of the restored files. Errors: those of verify_checkpoint, with a note, if no copy has an intact
// file; XG0711.
Result<std::vector<std::string>> restore_files(const CopyPlaces& places, const FoundStep& step);

}  // namespace xrun::runtime
