// The memory of a whole run: the arenas of its two programs, its readers, and saves in the background.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner {

struct RunMemory {
  Bytes training = 0;                  // all arenas of the training program, host included
  Bytes evaluation = 0;                // arenas mapped at the first evaluation; 0: the run does not evaluate
  Bytes readers = 0;                   // upper bound for the readers of data
  Bytes saving = 0;                    // upper bound for saves in the background (`checkpoint.async`)
  std::vector<std::string> uncounted;  // not in the sum: data sources whose readers keep the whole files in memory
  // Memory of each device that counts for its own limit: its arena of training and, on a GPU, that of evaluation.
  std::vector<Bytes> devices;
  Bytes on_gpus = 0;  // the part of the sum that is in the memory of GPUs

  Bytes sum() const { return training + evaluation + readers + saving; }
  Bytes on_hosts() const { return sum() - on_gpus; }
  Bytes largest_device() const { return devices.empty() ? 0 : std::ranges::max(devices); }
};

// The number of threads of a rank that may write files of a checkpoint at the same time: all workers and a background
// thread.
int writers_of_rank(const Program& program, int rank);
// The memory for copies of rows that steps change before a background save has written them. It is at most the size of
// all weights and states.
Bytes save_staging(const Program& program);

// Returns the size of the largest arena of a device, without the host's.
Bytes largest_device_of(const Program& program);
// Returns the arena bytes in the memory of each node: its host arena and, unless they are GPUs, those of its devices.
std::vector<Bytes> memory_of_nodes(const Program& program, const Machine& machine);

// Returns the bytes that the reader of a data source holds at most; -1 if they are not counted.
Bytes held_by(const SourceSpec& source);

// Computes the memory of a run from the module and the programs, for one rank, without opening any data source.
RunMemory run_memory(const Module& module, const Program& training, const Program& inference);

}  // namespace xrun::planner
