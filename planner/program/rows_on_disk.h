// The disk space of a run's class rows that are in files (docs/internals/memory.md, "Rows in a file").
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program/program.h"

namespace xrun::planner {

struct RowsOnDisk {
  std::string head;
  Bytes rows = 0;  // size of the file with all rows
  Bytes undo = 0;  // upper bound for the undo log, which has the old values of the rows changed since a checkpoint
  // Approximate bytes of the pages that contain the rows used in a step. The pages are read unless they are in the page
  // cache, and written back. Predicted times assume that they are in the cache.
  Bytes step_pages = 0;

  Bytes sum() const { return rows + undo; }
};

// Returns an entry for each head with rows in a file. `samples` is the number of samples of an epoch. If it is unknown
// (0), all rows are assumed to change between two checkpoints.
std::vector<RowsOnDisk> rows_on_disk(const Module& module, const Program& training, int64_t samples);

}  // namespace xrun::planner
