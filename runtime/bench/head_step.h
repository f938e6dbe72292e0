// A training step of a sharded classifier head on synthetic rows, measured on one device, each round beside the
// machine's roofline.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/head_def.h"
#include "ops/isa.h"
#include "runtime/bench/roofline.h"

namespace xrun::runtime {

// Softmax cross entropy over all classes, a random sample of them, or those in the lists of the targets (here lists of
// random classes); SGD, update in the backward sweep.
struct HeadCase {
  int64_t classes = 0;
  int64_t active = 0;      // classes that take part in a step; 0: all
  int64_t neighbours = 0;  // in the list of each class, from which active classes are chosen first; 0: no lists
  int64_t dim = 0;
  int64_t batch = 0;
  bool bf16 = false;  // products of operands rounded to bf16, of bf16 features
  HeadForm form;
  MarginForm margin;
  RowFormat weights = RowFormat::kF32;  // in memory
  std::optional<RowFormat> momentum;    // of the states; none: SGD without momentum
  double kept = 1;     // share of the class blocks of each shard whose logits are kept for the backward pass
  int64_t shards = 1;  // one after the other on the device
  int threads = 1;
  int rounds = 1;
};

// Operations of a step, over the classes that take part: the logits, once more where they are not kept, the gradient of
// the features, that of the weights.
Flops head_step_flops(const HeadCase& one);
// Bytes that a step moves between memory and processor at least, for the classes that take part: each sweep reads the
// class weights, one writes them and reads and writes the states; kept logits are written and read.
Bytes head_step_traffic(const HeadCase& one);

struct HeadMemory {
  Bytes weights = 0;
  Bytes states = 0;   // of the optimizer
  Bytes lists = 0;    // of neighbours
  Bytes logits = 0;   // that are kept
  Bytes buffers = 0;  // rows, selection, statistics, gradients, scratch
  Bytes roofline = 0;
  Bytes sum() const { return weights + states + lists + logits + buffers + roofline; }
};
HeadMemory head_memory(const HeadCase& one, Bytes last_cache);

struct HeadRound {
  Elapsed selection;   // of the active classes
  Elapsed forward;     // and the joining of statistics
  Elapsed backward;    // and the update, and the gradient of the features
  MachineRates rates;  // just before
  Seconds step() const { return selection.wall + forward.wall + backward.wall; }
};
// The share of the roofline that a round reaches: the operations and the traffic of a step at the machine's rates, over
// its time. By processor time it does not see other programs, nor workers that wait.
double roofline_share(const HeadCase& one, const HeadRound& round);
double roofline_share_of_processors(const HeadCase& one, const HeadRound& round);

struct HeadFigures {
  ops::Isa isa = ops::Isa::kAvx2;
  std::string_view instruction;  // of the roofline's products
  HeadMemory memory;             // as it was counted before the run
  Bytes before = 0;              // that the process held before it mapped the head
  Bytes peak = 0;                // the most it has held at one time, the roofline's arrays left out
  int64_t empty_shards = 0;
  std::vector<HeadRound> rounds;
  double first_loss = 0;  // mean of the rows: of the warm-up step, and of the last round
  double last_loss = 0;
};

// Runs a warm-up step and `rounds` rounds.
// Errors: kInfeasible XG0601 before anything is mapped where memory does not suffice, with a number of classes that
// fits; kUsage XG0802; kWorld XG0801, XG0803.
Result<HeadFigures> measure_head_step(const HeadCase& one);

}  // namespace xrun::runtime
