// What the class rows of a run take of the disk where they lie in files (docs/memory.md, "Rows in a file").
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

struct RowsOnDisk {
  std::string head;
  Bytes rows = 0;  // the file with all of them
  Bytes undo = 0;  // at most, beside it: what rows were at a checkpoint, of those that have changed until the next one
  // Pages with rows that a step uses, about: read unless the page cache has them, and written back. Predicted times
  // take them to be in the cache.
  Bytes step_pages = 0;

  Bytes sum() const { return rows + undo; }
};

// Of each head with such rows. `samples`: of an epoch; 0: not known, then all rows may change between two checkpoints.
std::vector<RowsOnDisk> rows_on_disk(const Module& module, const Program& training, int64_t samples);

}  // namespace xrun::planner
