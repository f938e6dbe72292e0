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

// The operations of a step over the classes that take part: logits, logits again where they are not kept, the gradient
// of the features and that of the weights.
Flops head_step_flops(const HeadCase& one);
// The exponentials of a step: one for each logit in each sweep, of those that take part.
double head_step_exponentials(const HeadCase& one);
// The bytes that a step at least moves between memory and processor for the classes that take part: both sweeps read
// the class weights, one writes them and reads and writes the states; kept logits are written and read.
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
  Elapsed forward;     // and the combination of the shards' statistics
  Elapsed backward;    // with the update and the gradient of the features
  MachineRates rates;  // measured just before the round
  Seconds step() const { return selection.wall + forward.wall + backward.wall; }
};
// The share of the roofline that a round reaches: the time for the operations, the exponentials and the traffic of a
// step at the machine's rates, over its own time. By processor time, other programs and waiting workers do not count.
double roofline_share(const HeadCase& one, const HeadRound& round);
double roofline_share_of_processors(const HeadCase& one, const HeadRound& round);

struct HeadFigures {
  ops::Isa isa = ops::Isa::kAvx2;
  std::string_view instruction;  // of the products that the roofline measures
  HeadMemory memory;             // as counted before the run
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
