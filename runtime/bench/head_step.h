// Measures a training step of a sharded classifier head on synthetic rows, on one device. Also measures the machine's
// roofline in each round.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/settings/head_def.h"
#include "ops/simd/isa.h"
#include "runtime/bench/roofline.h"

namespace xrun::runtime {

// A softmax cross entropy over all classes, over a random sample of them, or over the classes in the targets' lists
// (lists of random classes in this benchmark). The optimizer is SGD, whose update is part of the backward sweep.
struct HeadCase {
  int64_t classes = 0;
  int64_t active = 0;      // number of active classes in a step; 0: all classes
  int64_t neighbours = 0;  // length of each class's list, which supplies active classes first; 0: no lists
  int64_t dim = 0;
  int64_t batch = 0;
  bool bf16 = false;  // features are bf16, and operands of products are rounded to bf16
  HeadForm form;
  MarginForm margin;
  RowFormat weights = RowFormat::kF32;  // format of the class weights in memory
  std::optional<RowFormat> momentum;    // format of the momentum in memory; empty: SGD without momentum
  double kept = 1;     // share of the class blocks of each shard whose logits are kept for the backward pass
  int64_t shards = 1;  // number of shards, which run one after the other on the device
  int threads = 1;
  int rounds = 1;
};

// The operations of a step over the active classes: the logits (twice for logits that are not kept), the gradient of
// the features and the gradient of the weights.
Flops head_step_flops(const HeadCase& one);
// The number of exponentials in a step: one for each logit of the active classes in each of the two sweeps.
double head_step_exponentials(const HeadCase& one);
// The least traffic of a step between memory and processor, for the active classes. Both sweeps read the class weights.
// The backward sweep also writes them, and reads and writes the optimizer's states. Kept logits are written and read.
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
  MachineRates rates;  // the machine's rates, measured just before the round
  Seconds step() const { return selection.wall + forward.wall + backward.wall; }
};
// The share of the roofline that a round reaches: the time that the step's operations, exponentials and traffic need at
// the machine's rates, divided by the round's time. The share by processor time does not count other programs and
// waiting.
double roofline_share(const HeadCase& one, const HeadRound& round);
double roofline_share_of_processors(const HeadCase& one, const HeadRound& round);

struct HeadFigures {
  ops::Isa isa = ops::Isa::kAvx2;
  std::string_view instruction;  // instruction of the products in the measured roofline
  HeadMemory memory;             // sizes computed before anything is mapped
  Bytes before = 0;              // bytes that the process held before it mapped the head
  Bytes peak = 0;                // the most bytes that the process has held, without the roofline's arrays
  int64_t empty_shards = 0;
  std::vector<HeadRound> rounds;
  double first_loss = 0;  // mean loss over the rows in the warm-up step; last_loss: in the last round
  double last_loss = 0;
};

// Runs a warm-up step and `rounds` rounds. Errors: kInfeasible XG0601 memory does not suffice; it is reported before
// anything is mapped, with a number of classes that fits; kUsage XG0802; kWorld XG0801, XG0803.
Result<HeadFigures> measure_head_step(const HeadCase& one);

}  // namespace xrun::runtime
