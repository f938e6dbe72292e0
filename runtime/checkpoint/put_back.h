// Puts files of a checkpoint back from second copies, where the directory of the run has lost them or they are damaged.
// All functions are collective.
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
  std::string directory;   // of the run
  std::string copies;      // PATH of `checkpoint.copy`, a directory of each host
  bool reads = false;      // this rank reads the copies of its host: one of each does
  Peers* peers = nullptr;  // null: one process
  Io* io = &system_io();
};

// The name of the step that `--resume` means: none, a checkpoint that is not in the run's directory; empty, the newest
// one, and there is none. The newest is the one that `latest` of the directory names, there or not; without `latest`
// the newest of the directory and of the copies. Of steps that only copies have, one that all hosts with copies have
// comes first, since each of them has a part. Errors: those of newest_in.
Result<std::optional<std::string>> step_meant(const CopyPlaces& places, const std::string& resume);

struct FoundStep {
  CheckpointInfo info;
  std::string manifest;  // its text, if only copies have it; else empty
};
// The step of this name, by the manifest in the run's directory, or if that is missing or damaged by one of a copy.
// Errors: those of open_checkpoint; a note says that copies were looked at.
Result<FoundStep> find_step(const CopyPlaces& places, const std::string& name);

// Verifies all files of the step; puts back those that are missing or damaged, durably, the manifest last. Returns
// their names. Errors: those of verify_checkpoint if copies lack a file, too, with a note; XG0711.
Result<std::vector<std::string>> put_back(const CopyPlaces& places, const FoundStep& step);

}  // namespace xrun::runtime
