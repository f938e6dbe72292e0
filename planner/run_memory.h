// The memory of a whole run: the arenas of its two programs, and the memory of its readers.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

struct RunMemory {
  Bytes training = 0;                  // all arenas, host included
  Bytes evaluation = 0;                // all arenas, mapped at the first evaluation; 0: the run does not evaluate
  Bytes readers = 0;                   // upper bound
  Bytes saving = 0;                    // upper bound for saves in the background (`checkpoint.async`)
  std::vector<std::string> uncounted;  // sources whose readers hold as much as the size of their files

  Bytes sum() const { return training + evaluation + readers + saving; }
};

// The threads of a rank that may write files of a checkpoint at once: all workers, and one in the background.
int writers_of_rank(const Program& program, int rank);
// The memory of a rank for copies of rows that steps change before a background save has written them: at most all of
// its weights and states.
Bytes save_staging(const Program& program);

// Computes it from the module and the programs, for one rank; opens no source.
RunMemory run_memory(const Module& module, const Program& training, const Program& inference);

}  // namespace xrun::planner
