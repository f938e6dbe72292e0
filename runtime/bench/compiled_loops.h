// Measures compiled functions and updates against the built-in ones on one core, and the time of compiling them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "ops/simd/isa.h"

namespace xrun::runtime {

// Two implementations of one computation, which are measured in turn. Times are medians over the rounds.
struct LoopRace {
  std::string name;  // name of the computation, "silu, bf16"
  int64_t elements = 0;
  Seconds own = 0;
  Seconds built_in = 0;
  double speed() const { return built_in / own; }
};

struct LoopFigures {
  ops::Isa isa = ops::Isa::kAvx2;
  std::string compiler;  // name and version of the compiler, "LLVM 19.1.7"
  std::vector<LoopRace> races;
  LoopRace chain;              // one loop for eight operators, on data larger than caches; `built_in`: eight loops
  double chain_of_triad = 0;   // the chain's bytes per second, divided by the machine's rate on one core
  double processors = 1;       // share of that core that was available while the machine's rate was measured
  Seconds open = 0;            // time to load the module that compiles loops
  Seconds first = 0;           // time to compile the first loop
  Seconds all = 0;             // time to compile `loops` loops on `threads` threads
  Seconds all_from_cache = 0;  // time to read these loops from the cache on disk, on one thread
  Bytes more_memory = 0;       // growth of the resident memory by opening the module and compiling all loops
  int loops = 64;
  int threads = 1;
};

// Runs `rounds` rounds of each race. Errors: kWorld XG0821 there is no compiler; kUsage XG0802.
Result<LoopFigures> measure_compiled_loops(int rounds, int threads);

}  // namespace xrun::runtime
