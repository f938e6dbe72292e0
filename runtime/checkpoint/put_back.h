// Restores files of a checkpoint from second copies if they are missing or damaged in the directory of the run. All
// functions are collective.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/io.h"
#include "graph/base/result.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/peers.h"

namespace xrun::runtime {

struct CopyPlaces {
  std::string directory;   // directory of the run
  std::string copies;      // PATH of `checkpoint.copy`, a directory of each host
  bool reads = false;      // whether this rank reads the copies of its host: one rank of each host does
  Peers* peers = nullptr;  // null: one process
  Io* io = &system_io();
};

// The name of the step that `--resume` means: nullopt, a checkpoint that is not in the run's directory; empty, the
// newest one, but there is no step. The newest is the one that `latest` of the directory names, even if it is missing;
// without `latest`, the newest of the directory and of the copies. Among steps that only copies have, a step that all
// hosts with copies have comes first, since each host has a part of it. Errors: those of newest_in.
Result<std::optional<std::string>> step_meant(const CopyPlaces& places, const std::string& resume);

struct FoundStep {
  CheckpointInfo info;
  std::string manifest;  // text of the manifest if only copies have it; else empty
};
// The step of this name, according to the manifest in the run's directory, or if that is missing or damaged, to the
// manifest of a copy. Errors: those of open_checkpoint; a note says that copies were tried.
Result<FoundStep> find_step(const CopyPlaces& places, const std::string& name);

// Verifies all files of the step; restores those that are missing or damaged, durably, the manifest last. Returns their
// names. Errors: those of verify_checkpoint with a note, if copies lack a file as well; XG0711.
Result<std::vector<std::string>> put_back(const CopyPlaces& places, const FoundStep& step);

}  // namespace xrun::runtime
