// What a run needs of the machine in all: the arenas of its two programs, and what its readers hold beside them.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

struct RunMemory {
  Bytes training = 0;                  // all arenas, host included
  Bytes evaluation = 0;                // the same, mapped at the first evaluation; 0: the run has none
  Bytes readers = 0;                   // at most
  std::vector<std::string> uncounted;  // sources whose readers hold as much as their files have

  Bytes sum() const { return training + evaluation + readers; }
};

// By what the texts say: no source is opened.
RunMemory run_memory(const Module& module, const Program& training, const Program& inference);

}  // namespace xrun::planner
