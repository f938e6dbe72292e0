// Measures a training step of a sharded classifier head on synthetic rows on one device, and the machine's roofline
// with each round.
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

// Softmax cross entropy over all classes, over a random sample of them, or over those in the lists of the targets (here
// lists of random classes); SGD, with the update in the backward sweep.
struct HeadCase {
  int64_t classes = 0;
  int64_t active = 0;      // active classes of a step; 0: all
  int64_t neighbours = 0;  // length of each class's list, from which active classes are chosen first; 0: no lists
  int64_t dim = 0;
  int64_t batch = 0;
  bool bf16 = false;  // products of operands rounded to bf16, of bf16 features
  HeadForm form;
  MarginForm margin;
  RowFormat weights = RowFormat::kF32;  // format in memory
  std::optional<RowFormat> momentum;    // format of the states; empty: SGD without momentum
  double kept = 1;     // share of the class blocks of each shard whose logits are kept for the backward pass
  int64_t shards = 1;  // run one after the other on the device
  int threads = 1;
  int rounds = 1;
};

// The operations of a step over the active classes: logits, logits again if they are not kept, the gradient of the
// features and that of the weights.
Flops head_step_flops(const HeadCase& one);
// The exponentials of a step: one for each logit of the active classes in each sweep.
double head_step_exponentials(const HeadCase& one);
// The least traffic of a step between memory and processor for the active classes: both sweeps read the class weights,
// one writes them and reads and writes the states; kept logits are written and read.
Bytes head_step_traffic(const HeadCase& one);

struct HeadMemory {
  Bytes weights = 0;
  Bytes states = 0;   // states of the optimizer
  Bytes lists = 0;    // lists of neighbours
  Bytes logits = 0;   // logits that are kept
  Bytes buffers = 0;  // rows, selection, statistics, gradients, scratch
  Bytes roofline = 0;
  Bytes sum() const { return weights + states + lists + logits + buffers + roofline; }
};
HeadMemory head_memory(const HeadCase& one, Bytes last_cache);

struct HeadRound {
  Elapsed selection;   // choice of the active classes
  Elapsed forward;     // includes combining the shards' statistics
  Elapsed backward;    // includes the update and the gradient of the features
  MachineRates rates;  // measured just before the round
  Seconds step() const { return selection.wall + forward.wall + backward.wall; }
};
// The share of the roofline that a round reaches: the time for the operations, the exponentials and the traffic of a
// step at the machine's rates, over the round's time. In processor time, other programs and waiting are left out.
double roofline_share(const HeadCase& one, const HeadRound& round);
double roofline_share_of_processors(const HeadCase& one, const HeadRound& round);

struct HeadFigures {
  ops::Isa isa = ops::Isa::kAvx2;
  std::string_view instruction;  // instruction of the products that the roofline measures
  HeadMemory memory;             // counted before the run
  Bytes before = 0;              // held by the process before it mapped the head
  Bytes peak = 0;                // the most it has held at one time, without the roofline's arrays
  int64_t empty_shards = 0;
  std::vector<HeadRound> rounds;
  double first_loss = 0;  // mean over the rows, in the warm-up step; last_loss: in the last round
  double last_loss = 0;
};

// Runs a warm-up step and `rounds` rounds. Errors: kInfeasible XG0601 before anything is mapped if memory does not
// suffice, with a number of classes that fits; kUsage XG0802; kWorld XG0801, XG0803.
Result<HeadFigures> measure_head_step(const HeadCase& one);

}  // namespace xrun::runtime
