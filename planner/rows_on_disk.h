// The disk space of a run's class rows that are in files (docs/internals/memory.md, "Rows in a file").
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

struct RowsOnDisk {
  std::string head;
  Bytes rows = 0;  // the file with all rows
  Bytes undo = 0;  // the undo log, at most: the values at a checkpoint of the rows that change until the next one
  // Approximate bytes of pages with rows that a step uses: read unless the page cache has them, and written back.
  // Predicted times assume that they are in the cache.
  Bytes step_pages = 0;

  Bytes sum() const { return rows + undo; }
};

// One entry for each head with such rows. `samples`: per epoch; 0: unknown, and then all rows are assumed to change
// between two checkpoints.
std::vector<RowsOnDisk> rows_on_disk(const Module& module, const Program& training, int64_t samples);

}  // namespace xrun::planner
